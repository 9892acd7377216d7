#pragma once
// What tests of the trainer on a GPU have in common.
#include <ATen/ATen.h>

#include <vector>

#include "contract/trajectory.h"
#include "gpu/fixture.h"
#include "kernels/device.h"
#include "model/model.h"

namespace tritonforge::train {

class TrainOnGpu : public tritonforge::gpu::GpuTest {
 protected:
  at::Device device() const { return kernels::open_device("cuda"); }
};

void fill(const model::Model& to, const model::Model& from);  // with its weights
// Random weights, of vectors too.
model::Model made(const model::ModelConfig& config, at::ScalarType dtype, at::Device device);
// Of `least` to `most` random tokens, some of them targets.
std::vector<TrainSequence> sequences(size_t count, double temperature, size_t least = 20, size_t most = 300);

}  // namespace tritonforge::train
