#include "engine/aten_runner.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/device.h"

namespace tritonforge::engine {
AtenRunner::AtenRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model,
                       model::Together* ranks)
    : model_(model),
      ranks_(ranks),
      cache_dtype_(cache_dtype(options, model.dtype())),
      blocks_(sizes.blocks),
      host_blocks_(sizes.host_blocks),
      layout_(model.device().is_cpu() && !options.rows_attention ? KvLayout::kVector : KvLayout::kRows),
      limits_({.max_tokens = sizes.step_tokens,
               .max_sequences = options.max_running,
               .max_context = sizes.max_context,
               .block_size = kBlockSize,
               .pad = options.pad_batches || !model.device().is_cpu(),
               .list_context = model.device().is_cuda()}),
      sampler_(model.device()) {
  take_memory();
}

void AtenRunner::take_memory() {
  try {
    batches_.emplace(limits_, model_.device());
    cache_.emplace(model_.config(), blocks_, kBlockSize, cache_dtype_, model_.device(), layout_);
    if (host_blocks_ > 0 && !host_)
      host_.emplace(model_.config(), host_blocks_, kBlockSize, cache_dtype_, at::kCPU, layout_);
  } catch (...) {
    release_memory();
    throw;
  }
}

void AtenRunner::release_memory() {
  cache_.reset();
  batches_.reset();
  if (model_.device().is_cpu()) return;
  kernels::synchronize(model_.device());
  at::getDeviceAllocator(model_.device().type())->emptyCache();
}

void AtenRunner::move_blocks(std::span<const BlockMove> moves) {
  for (const auto& [block, place, to_host] : moves) {
    if (to_host) host_->copy_block(place, *cache_, block);
    else cache_->copy_block(block, *host_, place);
  }
}

void AtenRunner::fill(const Plan& plan, std::span<const kernels::SampleRow> rows) {
  batch_ = &batches_->fill(plan);
  rows_.assign(rows.begin(), rows.end());
  work_ = nullptr;
}

void AtenRunner::forward() {
  hidden_ = model_.forward(batch_->ids, batch_->positions, cache_->attention(*batch_),
                           {.ranks = ranks_, .rows = scores_prompts() ? at::Tensor() : batch_->sample_rows});
}

std::span<const kernels::Sampled> AtenRunner::draw() {
  const at::Tensor hidden = std::move(hidden_);
  answers_ = {};
  if (scores_prompts()) score_prompts(hidden);
  if (rows_.empty()) return {};
  const at::Tensor drawn_from = scores_prompts() ? hidden.index_select(0, batch_->sample_rows) : hidden;
  const at::Tensor logits = model_.logits(drawn_from, ranks_);
  if (work_ != nullptr) edit_logits(logits, *work_);
  const auto& drawn = sampler_.sample(logits, rows_);
  if (work_ != nullptr) tell_draws(logits, *work_, rows_, drawn, answers_);
  return drawn;
}

// Piece by piece: the logits of a whole step's prompts would be larger than all else.
void AtenRunner::score_prompts(const at::Tensor& hidden) {
  for (const LogitWork::Prompt& prompt : work_->prompts) {
    auto& scores = answers_.prompts.emplace_back();
    const int64_t count = std::ssize(prompt.targets);
    for (int64_t done = 0; done < count; done += kScoredRows) {
      const int64_t rows = std::min(kScoredRows, count - done);
      tell_prompt(model_.logits(hidden.narrow(0, prompt.first + done, rows), ranks_), prompt, done, scores);
    }
  }
}

}  // namespace tritonforge::engine
