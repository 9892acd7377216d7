#include <ATen/Parallel.h>

#include <algorithm>

#include "train/cpu/head.h"
#include "train/cpu/layers.h"
#include "train/pass.h"

namespace tritonforge::train {
namespace {

// For the length of a pass: parts go to the next free thread, and nobody waits for one that another process has taken
// the core from. Between passes libtorch's own are there for the optimizer.
class Threads {
 public:
  Threads() {
    if (kernels::ThreadPool::of_this_thread() == nullptr) pool_.emplace(at::get_num_threads());
  }

 private:
  std::optional<kernels::ThreadPool> pool_;
};

class CpuPass : public Pass {
 public:
  CpuPass(const model::Model& model, const TrainConfig& config, Gradients* gradients, const parallel::Groups& groups)
      : gradients_(gradients),
        layers_count_(model.config().num_layers),
        shards_(groups, model.config(), /*unit=*/1),
        layers_(model, std::max<int64_t>(0, config.recompute_layers), shards_),
        head_(model, config.lm_head_chunk, shards_) {}

  TargetScores forward(const MicroBatch& batch, bool train, const at::Tensor&) override {
    const Threads threads;
    if (gradients_ != nullptr && gradients_->weights_needed) {  // panels are made of all of them
      for (int64_t i = 0; i <= layers_count_ + 1; ++i) gradients_->weights_needed(static_cast<size_t>(i));
    }
    shards_.begin(batch);
    const at::Tensor& x = layers_.forward(batch, train);
    batch_ = train ? &batch : nullptr;
    return head_.forward(batch, x);
  }

  void backward(const at::Tensor& grad_log_probs, const at::Tensor& grad_entropy) override {
    TF_CHECK(batch_ != nullptr && gradients_ != nullptr, "a backward pass without its forward pass");
    const Threads threads;
    if (gradients_->empty) gradients_->sums.arena().zero_();
    gradients_->empty = false;
    at::Tensor grad = head_.backward(*batch_, grad_log_probs, grad_entropy, gradients_->sums);
    layers_.backward(*batch_, grad, *gradients_);
    batch_ = nullptr;
  }

  void weights_changed() override {
    layers_.weights_changed();
    head_.weights_changed();
  }

 private:
  Gradients* gradients_;
  const int64_t layers_count_;
  TokenShards shards_;
  cpu::Layers layers_;
  cpu::Head head_;
  const MicroBatch* batch_ = nullptr;  // of the forward pass that waits for its backward pass
};

}  // namespace

std::unique_ptr<Pass> make_cpu_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                    const parallel::Groups& groups) {
  return std::make_unique<CpuPass>(model, config, gradients, groups);
}

}  // namespace tritonforge::train
