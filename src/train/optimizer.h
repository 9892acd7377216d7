#pragma once
// AdamW (Loshchilov & Hutter 2019) over a model's tensors. Nothing here synchronises with the host, which has no part
// in the update unless it has the states: a non-finite gradient norm skips the update on the device.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/group.h"
#include "train/config.h"
#include "train/gradients.h"

namespace tritonforge::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Which elements of a tensor a flat part of it holds: those from `begin` on, row after row; of a block of its columns
// where `width` is not 0, counted in the block.
struct ElementRange {
  int64_t begin = 0;
  int64_t width = 0, column = 0, columns = 0;  // of the block, where it begins, of the tensor
  bool operator==(const ElementRange&) const = default;
};

// A tensor of the optimizer's state, or what this rank has of it.
struct StatePiece {
  std::string name;
  at::Tensor values;           // the tensor itself; of a part [count]
  std::vector<int64_t> shape;  // of the whole tensor
  ElementRange elements;
  bool replica = false;  // of what another rank has, too, and writes
};
using StatePieces = std::vector<StatePiece>;

// Vectors (norms, biases) are not decayed.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // After every backward pass: what it left becomes part of the step's sum.
  virtual void accumulate_gradients() = 0;
  virtual void clear_gradients() = 0;
  // Of several ranks, before an update's passes: the rows [n] of this rank's embedding that any of them reads,
  // ascending, each once, on the model's device.
  virtual void before_passes(at::Tensor) {}
  // The backward pass that follows is the step's last one of its layers: what it is through with may be summed over the
  // ranks.
  virtual void before_last_pass() {}
  // What reads the weights afterwards finds them whole: a pass of ours asks for its parts by itself.
  virtual void await_weights() {}

  struct Applied {
    at::Tensor gradient_norm;  // scalar fp32, before the clip
    at::Tensor skipped;        // scalar fp32: 1 where the norm was not finite and nothing was changed
  };
  // Clips to clip_grad, updates masters and parameters, and clears the gradients.
  virtual Applied step(double learning_rate) = 0;

  // Masters (where parameters have some), moments and step counts by name, the tensors themselves: what a checkpoint
  // holds. Copying into them and calling masters_changed() restores the state.
  virtual StatePieces state() const = 0;
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
  StatePieces state() const override;
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
// groups: of several ranks, with gradients in the arena only.
std::unique_ptr<Optimizer> make_optimizer(const model::Model& model, Gradients* gradients,
                                          const parallel::Groups& groups, const TrainConfig& config);

}  // namespace tritonforge::train
