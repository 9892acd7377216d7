#include "engine/aten_runner.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "base/error.h"
#include "kernels/device.h"

namespace tritonforge::engine {

AtenRunner::AtenRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model)
    : model_(model),
      blocks_(sizes.blocks),
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
    cache_.emplace(model_.config(), blocks_, kBlockSize, model_.dtype(), model_.device(), layout_);
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

void AtenRunner::fill(const Plan& plan, std::span<const kernels::SampleRow> rows) {
  batch_ = &batches_->fill(plan);
  rows_.assign(rows.begin(), rows.end());
}

void AtenRunner::forward() { hidden_ = model_.forward(batch_->ids, batch_->positions, cache_->attention(*batch_)); }

std::span<const kernels::Sampled> AtenRunner::draw() {
  const at::Tensor hidden = std::move(hidden_);
  if (rows_.empty()) return {};
  return sampler_.sample(model_.logits(hidden.index_select(0, batch_->sample_rows)), rows_);
}

}  // namespace tritonforge::engine
