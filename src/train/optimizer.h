#pragma once
// AdamW (Loshchilov & Hutter 2019) over a model's tensors. Nothing here synchronises with the host: a non-finite
// gradient norm skips the update on the device.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/config.h"
#include "train/gradients.h"

namespace tritonforge::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Vectors (norms, biases) are not decayed.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // After every micro-batch: what its backward pass left becomes part of the step's sum.
  virtual void accumulate_gradients() = 0;
  virtual void clear_gradients() = 0;

  struct Applied {
    at::Tensor gradient_norm;  // scalar fp32, before the clip
    at::Tensor skipped;        // scalar fp32: 1 where the norm was not finite and nothing was changed
  };
  // Clips to clip_grad, updates masters and parameters, and clears the gradients.
  virtual Applied step(double learning_rate) = 0;

  // Masters (where parameters have some), moments and step counts by name, the tensors themselves: what a checkpoint
  // holds. Copying into them and calling masters_changed() restores the state.
  virtual NamedTensors state() const = 0;
  virtual void masters_changed() = 0;  // parameters = masters, rounded
};

// Over .grad of tensors, by ATen's fused kernels, on any device. Parameters of bfloat16 have fp32 masters; moments are
// fp32.
class AdamW : public Optimizer {
 public:
  // Marks the parameters as requiring gradients.
  AdamW(const NamedTensors& parameters, const TrainConfig& config);

  // fp32 gradients are summed by autograd itself; bfloat16 ones would lose bits, so they are added to an fp32 sum.
  void accumulate_gradients() override;
  void clear_gradients() override;
  Applied step(double learning_rate) override;
  NamedTensors state() const override;
  void masters_changed() override;

 private:
  struct Group {
    double decay;
    std::vector<at::Tensor> parameters, masters, gradients, first, second, steps;
    std::vector<std::string> names;
  };
  TrainConfig config_;
  bool separate_masters_ = false;
  std::vector<Group> groups_;
};

// For the gradients that the passes of this model leave (train/pass.h): in the arena, or in .grad where there is none.
std::unique_ptr<Optimizer> make_optimizer(const model::Model& model, Gradients* gradients, const TrainConfig& config);

}  // namespace tritonforge::train
