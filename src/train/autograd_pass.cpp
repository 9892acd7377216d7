#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "train/pass.h"

namespace tritonforge::train {
namespace {

class AutogradPass : public Pass {
 public:
  AutogradPass(const model::Model& model, const TrainConfig& config) : model_(model), config_(config) {}

  TargetScores forward(const MicroBatch& batch, bool train, const KnownGradients& known, int64_t) override {
    TF_CHECK(!batch.shares_prefixes(), "autograd computes whole sequences");
    const at::AutoGradMode mode(train);
    const at::Tensor hidden = model_.forward(batch.ids, batch.positions, model::packed_attention(batch.cu_seqlens),
                                             {.recompute_layers = std::max<int64_t>(0, config_.recompute_layers)});
    const at::Tensor rows = batch.target_count == batch.tokens ? hidden : hidden.index_select(0, batch.rows);
    graph_ = lm_head_scores(rows, model_.lm_head(), batch.targets, batch.inverse_temperature, config_.lm_head_chunk,
                            train && config_.loss.entropy_coef > 0);
    const TargetScores scores{graph_.log_probs.detach(), graph_.entropy.detach()};
    known_ = train && known ? std::optional(known({0, batch.target_count}, scores)) : std::nullopt;
    return scores;
  }

  void backward(const ScoreGradients& told, int64_t) override {
    const ScoreGradients& gradients = known_ ? *known_ : told;
    std::vector<at::Tensor> of{graph_.log_probs}, grads{gradients.log_probs};
    if (gradients.entropy.defined()) {
      of.push_back(graph_.entropy);
      grads.push_back(gradients.entropy);
    }
    torch::autograd::backward(of, grads);
    graph_ = {};
  }

  void weights_changed() override {}

 private:
  const model::Model& model_;
  const TrainConfig& config_;
  TargetScores graph_;
  std::optional<ScoreGradients> known_;
};

}  // namespace

std::unique_ptr<Pass> make_autograd_pass(const model::Model& model, const TrainConfig& config) {
  return std::make_unique<AutogradPass>(model, config);
}

}  // namespace tritonforge::train
