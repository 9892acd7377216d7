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
        products_(model.device(), config.deterministic),
        shards_(groups, model.config(), gpu::kRowUnit),
        link_(groups, model.config().chunk_count()),
        flights_(link_.stage()),
        layers_(model, {std::max<int64_t>(0, config.recompute_layers), config.recompute_qkv_layers}, products_, shards_,
                link_) {
    const int64_t tokens = config.max_tokens_per_micro_batch;
    layers_.reserve(tokens, gradients != nullptr);
    if (!model.config().predicts()) return;
    head_.emplace(model, config.lm_head_chunk, products_, shards_);
    head_->reserve(std::min(tokens, shards_.rows_of(tokens).shard), gradients != nullptr);
  }

  std::optional<SegmentLayout> segments() const override {
    if (shards_.ring() != nullptr) return std::nullopt;
    return SegmentLayout{.unit = tritonforge::gpu::kPage, .block = tritonforge::gpu::kAttentionKeys};
  }

  TargetScores forward(const MicroBatch& batch, bool train, const KnownGradients& known, int64_t chunk) override {
    const at::NoGradGuard no_grad;
    use_device();
    shards_.begin(batch);
    const int64_t slot = flights_.begin(batch, chunk, train);
    link_.begin_forward(slot);
    const SegmentHook& needed = gradients_ != nullptr ? gradients_->weights_needed : no_hook_;
    const at::Tensor x = layers_.forward(batch, train, slot, needed);
    if (head_) return head_->forward(batch, x, train ? known : nullptr, train ? gradients_ : nullptr);
    link_.send_output(x, slot);
    return {};
  }

  void backward(const ScoreGradients& of, int64_t chunk) override {
    TF_CHECK(gradients_ != nullptr, "a backward pass of a model without gradients");
    const at::NoGradGuard no_grad;
    use_device();
    const auto [batch, slot] = flights_.end(chunk);
    if (link_.stage().count > 1) shards_.begin(*batch);
    const at::Tensor grad = layers_.zeroed_grad();
    if (head_) head_->backward(of, grad, *gradients_);
    else link_.receive_gradient(shards_.own(grad));
    layers_.backward(*batch, slot, *gradients_);
    gradients_->empty = false;
  }

  void settle() override { link_.settle(); }
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
  StageLink link_;
  Flights flights_;
  gpu::Layers layers_;
  std::optional<gpu::Head> head_;  // the last stage's
};

}  // namespace

std::unique_ptr<Pass> make_gpu_pass(const model::Model& model, const TrainConfig& config, Gradients* gradients,
                                    const parallel::Groups& groups) {
  return std::make_unique<GpuPass>(model, config, gradients, groups);
}

}  // namespace tritonforge::train
