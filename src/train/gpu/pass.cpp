#include "train/pass.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "train/gpu/head.h"
#include "train/gpu/layers.h"

namespace tritonforge::train {
namespace {

class GpuPass : public Pass {
 public:
  GpuPass(const model::Model& model, const TrainConfig& config, Gradients* gradients, const parallel::Groups& groups)
      : model_(model),
        gradients_(gradients),
        products_(model.device(), !config.deterministic),
        shards_(groups, model.config(), gpu::kRowUnit),
        layers_(model, {std::max<int64_t>(0, config.recompute_layers), config.recompute_qkv_layers}, products_,
                shards_),
        head_(model, config.lm_head_chunk, products_, shards_) {
    const int64_t tokens = config.max_tokens_per_micro_batch;
    layers_.reserve(tokens, gradients != nullptr);
    head_.reserve(std::min(tokens, shards_.rows_of(tokens).shard), gradients != nullptr);
  }

  std::optional<SegmentLayout> segments() const override {
    if (shards_.ring() != nullptr) return std::nullopt;
    return SegmentLayout{.unit = tritonforge::gpu::kPage, .block = tritonforge::gpu::kAttentionKeys};
  }

  TargetScores forward(const MicroBatch& batch, bool train, const KnownGradients& known, int64_t) override {
    const at::NoGradGuard no_grad;
    use_device();
    ready_ = train;
    shards_.begin(batch);
    const SegmentHook& needed = gradients_ != nullptr ? gradients_->weights_needed : no_hook_;
    return head_.forward(batch, layers_.forward(batch, train, needed), train ? known : nullptr,
                         train ? gradients_ : nullptr);
  }

  void backward(const ScoreGradients& of, int64_t) override {
    TF_CHECK(ready_ && gradients_ != nullptr, "a backward pass without its forward pass");
    const at::NoGradGuard no_grad;
    use_device();
    head_.backward(of, layers_.zeroed_grad(), *gradients_);
    layers_.backward(*gradients_);
    gradients_->empty = false;
    ready_ = false;
  }

  void weights_changed() override {}

 private:
  void use_device() const {
    gpu::check_cuda(tritonforge::gpu::open_cuda_library().set_device(model_.device().index()));
  }

  const model::Model& model_;
  Gradients* gradients_;
  const SegmentHook no_hook_;
  gpu::Products products_;
  TokenShards shards_;
  gpu::Layers layers_;
  gpu::Head head_;
  bool ready_ = false;  // there is a forward pass that waits for its backward pass
};

}  // namespace

std::unique_ptr<Pass> make_gpu_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                    const parallel::Groups& groups) {
  return std::make_unique<GpuPass>(model, config, gradients, groups);
}

}  // namespace tritonforge::train
