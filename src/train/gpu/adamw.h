#pragma once
// AdamW over the flat arenas of a model on a GPU, one kernel a step (kernels/gpu/adamw.cu).
#include "kernels/gpu/train_args.h"
#include "train/gradients.h"
#include "train/optimizer.h"

namespace tritonforge::train::gpu {

// fp32 states: masters and moments in fp32, as AdamW's. bf16_sr: no masters, moments in bfloat16, everything rounded at
// random by (seed, step, place), so that what is too small for a step of bfloat16 moves it so often as its size says.
class FlatAdamW : public Optimizer {
 public:
  FlatAdamW(const model::Model& model, Gradients& gradients, const TrainConfig& config);

  void accumulate_gradients() override {}  // the pass adds them up itself
  void clear_gradients() override { gradients_.empty = true; }
  Applied step(double learning_rate) override;
  NamedTensors state() const override;
  void masters_changed() override;

 private:
  const model::Model& model_;
  Gradients& gradients_;
  TrainConfig config_;
  std::optional<model::Model> master_;  // fp32 states only
  model::Model first_, second_;
  at::Tensor decision_;         // AdamwState, as floats
  at::Tensor partials_;         // scratch
  at::Tensor begins_, decays_;  // [tensors]
};

}  // namespace tritonforge::train::gpu
