#pragma once
// The weights of an engine that sleeps: their device memory is given back, their content waits in host memory.
#include <ATen/ATen.h>

#include <functional>
#include <optional>

#include "kernels/gpu/handles.h"
#include "model/model.h"

namespace tritonforge::engine {

class WeightOffload {
 public:
  bool offloaded() const { return offloaded_; }
  // Copies the weights to pinned host memory, which is kept for the next time, and gives their own back. On the CPU
  // they lie in host memory anyway and are only taken out of the model: nothing can use them meanwhile. Nothing may be
  // queued on the device. Where the host has no memory it throws and the weights stay.
  void offload(model::Model& model);
  // The same weights again, perhaps at other addresses. Where the device has no memory it throws and they stay away.
  void reload(model::Model& model);
  // Memory for other weights: `install` writes all of them. Where it throws, the old ones stay away.
  void replace(model::Model& model, const std::function<void()>& install);

 private:
  void take_memory(model::Model& model);
  void give_back(model::Model& model);
  std::optional<gpu::PinnedMemory> pinned_;
  at::Tensor host_;    // the arena's content where the model is on a device
  c10::DataPtr kept_;  // the arena itself where it is on the CPU
  bool offloaded_ = false;
};

}  // namespace tritonforge::engine
