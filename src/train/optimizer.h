#pragma once
// AdamW (Loshchilov & Hutter 2019) over a model's tensors. Parameters of bfloat16 have fp32 masters; moments are fp32.
// Nothing here synchronises with the host: a non-finite gradient norm skips the update on the device.
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "train/config.h"

namespace tritonforge::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class AdamW {
 public:
  // Marks the parameters as requiring gradients. Vectors (norms, biases) are not decayed.
  AdamW(const NamedTensors& parameters, const TrainConfig& config);

  // Moves .grad of the parameters into the step's sum. fp32 gradients are summed by autograd itself; bfloat16 ones
  // would lose bits, so they are added to an fp32 sum after every micro-batch.
  void accumulate_gradients();

  void clear_gradients();

  struct Applied {
    at::Tensor gradient_norm;  // scalar fp32, before the clip
    at::Tensor skipped;        // scalar fp32: 1 where the norm was not finite and nothing was changed
  };
  // Clips to clip_grad, updates masters and parameters, and clears the gradients.
  Applied step(double learning_rate);

  // Masters (where parameters are bfloat16), moments and step counts by name, the tensors themselves: what a
  // checkpoint holds. Copying into them and calling masters_changed() restores the state.
  NamedTensors state() const;
  void masters_changed();  // parameters = masters, rounded

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

}  // namespace tritonforge::train
