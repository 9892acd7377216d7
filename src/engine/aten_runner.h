#pragma once
// The runner that computes with model::Model itself, on any device of ATen: the CPU's, and the reference of every
// other.
#include <optional>

#include "engine/attention_paged.h"
#include "engine/batch.h"
#include "engine/options.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/sizing.h"

namespace tritonforge::engine {

class AtenRunner : public Runner {
 public:
  // Refers to the model, which outlives it, and to `ranks`, where the model is the part of one.
  AtenRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model,
             model::Together* ranks = nullptr);
  void move_blocks(std::span<const BlockMove> moves) override;
  void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) override;
  void ask(const Plan& /*plan*/, const LogitWork& work) override { work_ = &work; }
  const LogitAnswers& answers() const override { return answers_; }
  void forward() override;
  std::span<const kernels::Sampled> draw() override;
  void discard() override {
    hidden_ = at::Tensor();
    work_ = nullptr;
  }
  void take_memory() override;
  void release_memory() override;
  bool has_memory() const override { return cache_.has_value(); }

 private:
  bool scores_prompts() const { return work_ != nullptr && !work_->prompts.empty(); }
  void score_prompts(const at::Tensor& hidden);
  const model::Model& model_;
  model::Together* const ranks_;
  const at::ScalarType cache_dtype_;
  const int64_t blocks_, host_blocks_;
  const KvLayout layout_;
  const BatchLimits limits_;
  std::optional<KvCache> cache_, host_;
  std::optional<BatchBuffers> batches_;
  Sampler sampler_;
  const Batch* batch_ = nullptr;
  std::vector<kernels::SampleRow> rows_;
  const LogitWork* work_ = nullptr;  // of the step under way, where it has some
  LogitAnswers answers_;
  at::Tensor hidden_;  // [tokens, hidden] of the step under way; of its draws alone unless it scores prompts
};

}  // namespace tritonforge::engine
