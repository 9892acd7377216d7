#include "train/rank_part.h"

#include <ATen/core/grad_mode.h>

#include <span>

#include "kernels/device.h"
#include "train/optimizer_files.h"
#include "train/weight_shards.h"

namespace tritonforge::train {
namespace {

// Of weights that are nowhere yet.
RankPart planned(Trainer& trainer) {
  const parallel::ParallelDims& dims = trainer.config().parallel;
  return {trainer.rank(), dims.world(), shard_files(trainer.shape(), trainer.model().dtype(), dims), std::nullopt};
}

at::Tensor place_on_host(RankPart& part) {
  const at::Tensor memory = at::empty({shard_bytes(part.weights, part.rank)}, at::kByte);
  place_shard(part.weights, part.rank, memory);
  return memory;
}

void copy_weights(RankPart& part, Trainer& trainer) {
  copy_shard(part.weights, part.rank, trainer.model(), trainer.groups());
}

}  // namespace

RankPart part_of(Trainer& trainer, bool with_optimizer) {
  const bool whole = trainer.groups().tp == nullptr;
  const auto make = [&] {
    RankPart part = planned(trainer);
    if (with_optimizer) part.optimizer = trainer.optimizer().state();
    if (whole) {
      use_shard(part.weights, part.rank, trainer.model());
    } else {
      place_on_host(part);
      copy_weights(part, trainer);
      kernels::synchronize(trainer.model().device());
    }
    return part;
  };
  return whole ? make() : trainer.together("a rank's files", make);
}

Json write_part(const RankPart& part, const fs::path& folder) {
  Json sums = model::write_weight_files(part.weights, part.rank, folder);
  if (part.optimizer) sums.update(write_optimizer(*part.optimizer, folder, part.rank, part.ranks));
  return sums;
}

RankPart Snapshot::take(Trainer& trainer) {
  if (trainer.groups().tp == nullptr) fill(trainer);
  else trainer.together("a checkpoint's copy", [&] { fill(trainer); });
  return part_;
}

void Snapshot::fill(Trainer& trainer) {
  const at::NoGradGuard no_grad;
  const StatePieces states = trainer.optimizer().state();
  if (!taken()) {  // memory_ last: where one of these fails, nothing was taken, and the next try begins anew
    part_ = planned(trainer);
    const at::Tensor memory = place_on_host(part_);
    StatePieces copies = states;
    for (StatePiece& piece : copies) {
      const at::Tensor& values = piece.values;
      piece.values = at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(values.is_cuda()));
    }
    if (trainer.model().device().is_cuda() && kernels::has_gpu_kernels() && memory.numel() > 0)
      pinned_.emplace(std::span(static_cast<std::byte*>(memory.mutable_data_ptr()), memory.nbytes()));
    part_.optimizer = std::move(copies);
    memory_ = memory;
  }
  copy_weights(part_, trainer);
  for (size_t i = 0; i < states.size(); ++i)
    (*part_.optimizer)[i].values.copy_(states[i].values, /*non_blocking=*/true);
  kernels::synchronize(trainer.model().device());
}

int64_t Snapshot::bytes(Trainer& trainer) {
  const RankPart part = planned(trainer);
  int64_t bytes = shard_bytes(part.weights, part.rank);
  for (const StatePiece& piece : trainer.optimizer().state()) bytes += static_cast<int64_t>(piece.values.nbytes());
  return bytes;
}

}  // namespace tritonforge::train
