#pragma once
// Forward and backward pass of a micro-batch, each as its device does it best; the trainer's step is the same for all.
#include <memory>
#include <optional>
#include <string>

#include "model/model.h"
#include "parallel/group.h"
#include "train/config.h"
#include "train/gradients.h"
#include "train/lm_head_loss.h"
#include "train/packing.h"

namespace tritonforge::train {

// How a pass has segments that others go on from (train/prefixes.h).
struct SegmentLayout {
  int64_t unit;   // they end at multiples of so many tokens of their sequence
  int64_t block;  // keys that attention takes at once
};

class Pass {
 public:
  virtual ~Pass() = default;
  // None: its micro-batches are of whole sequences.
  virtual std::optional<SegmentLayout> segments() const { return std::nullopt; }
  // Log-probability and entropy of every target, plain tensors; of a pipeline's part but the last, nothing. `train`:
  // backward() may follow, with the batch as it is, before or after other forward passes of a pipeline. `known`: where
  // there is such a function of a chunk's scores, the head's gradients are made of the logits while they are there,
  // which are otherwise computed again; backward() is then told nothing. `chunk`: of a pipeline's stage, the part that
  // the pass goes through (model/stages.h).
  virtual TargetScores forward(const MicroBatch& batch, bool train, const KnownGradients& known = nullptr,
                               int64_t chunk = 0) = 0;
  // Adds the gradients of the loss to the arena that the pass was made with, or to .grad of the model's parameters,
  // from its gradients by the scores [n] of the chunk's oldest forward pass that had no backward pass yet. Once a
  // forward pass.
  virtual void backward(const ScoreGradients& of, int64_t chunk = 0) = 0;
  // What other stages were sent has arrived there.
  virtual void settle() {}
  // The model's weights are others than at the pass before.
  virtual void weights_changed() = 0;
};

// Through Model::forward and autograd: any device and dtype, and the reference that the others are compared with.
std::unique_ptr<Pass> make_autograd_pass(const model::Model& model, const TrainConfig& config);
// With kernels and a backward pass of its own (train/cpu): fp32 on the CPU. `gradients`: where backward() adds; null:
// forward() alone. groups: the ranks that compute a micro-batch together, each with all of it and with its part of the
// model; each has the scores of all targets, and is told their gradients.
std::unique_ptr<Pass> make_cpu_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                    const parallel::Groups& groups = {});
// With the kernels of kernels/gpu: bfloat16 models of which gpu_kernels_refusal() is empty.
std::unique_ptr<Pass> make_gpu_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                    const parallel::Groups& groups = {});

// The arena for the gradients of the pass that suits model and config; none where they go to .grad.
std::optional<Gradients> make_gradients(const model::Model& model, const TrainConfig& config);
// Why the kernels of kernels/gpu do not train this model, in one line; empty where they do.
std::string gpu_refusal(const model::Model& model, const TrainConfig& config);
// The fastest for the model's device and dtype; with config.autograd the reference.
std::unique_ptr<Pass> make_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                const parallel::Groups& groups = {});

}  // namespace tritonforge::train
