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
  CpuPass(const model::Model& model, const TrainConfig& config)
      : model_(model),
        layers_(model, std::max<int64_t>(0, config.recompute_layers)),
        head_(model, config.lm_head_chunk) {}

  TargetScores forward(const MicroBatch& batch, bool train, const at::Tensor&) override {
    const Threads threads;
    const at::Tensor& x = layers_.forward(batch, train);
    batch_ = train ? &batch : nullptr;
    return head_.forward(batch, x.narrow(0, 0, batch.tokens));
  }

  void backward(const at::Tensor& grad_log_probs, const at::Tensor& grad_entropy) override {
    TF_CHECK(batch_ != nullptr, "a backward pass without its forward pass");
    const Threads threads;
    attach_gradients();
    at::Tensor grad = head_.backward(*batch_, layers_.output(), grad_log_probs, grad_entropy, *gradients_);
    layers_.backward(*batch_, grad, *gradients_);
    batch_ = nullptr;
  }

  void weights_changed() override {
    layers_.weights_changed();
    head_.weights_changed();
  }

 private:
  // .grad of every parameter is its place in one arena, which is zeroed when whoever took the gradients let go of them.
  void attach_gradients() {
    const auto parameters = model_.named_parameters();
    if (parameters.front().second.grad().defined()) return;
    if (!gradients_) gradients_.emplace(model_.config(), at::kFloat, at::kCPU);
    gradients_->arena().zero_();
    const auto gradients = gradients_->named_parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor parameter = parameters[i].second;
      parameter.mutable_grad() = gradients[i].second;
    }
  }

  const model::Model& model_;
  cpu::Layers layers_;
  cpu::Head head_;
  std::optional<model::Model> gradients_;
  const MicroBatch* batch_ = nullptr;  // of the forward pass that waits for its backward pass
};

}  // namespace

std::unique_ptr<Pass> make_cpu_pass(const model::Model& model, const TrainConfig& config) {
  return std::make_unique<CpuPass>(model, config);
}

}  // namespace tritonforge::train
