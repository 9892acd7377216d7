#pragma once
// What one rank writes of a checkpoint or an export: its shard of the weights and its pieces of the optimizer's state.
#include <optional>

#include "kernels/gpu/handles.h"
#include "model/weight_files.h"
#include "train/trainer.h"

namespace tritonforge::train {

struct RankPart {
  int64_t rank = 0, ranks = 1;
  model::WeightFiles weights;            // of all ranks; this one's tensors are there
  std::optional<StatePieces> optimizer;  // of a checkpoint
};

// The trainer's own tensors or, where tensor-parallel ranks have parts of them, copies on the host, which they make
// together().
RankPart part_of(Trainer& trainer, bool with_optimizer);
// Writes the rank's files into the folder and returns the checksums of their tensors.
Json write_part(const RankPart& part, const fs::path& folder);

// Copies in the host's memory (pinned for a GPU), kept from one checkpoint to the next.
class Snapshot {
 public:
  // Waits for the device and, of tensor-parallel ranks, for each other, and for nothing else.
  RankPart take(Trainer& trainer);
  static int64_t bytes(Trainer& trainer);
  bool taken() const { return memory_.defined(); }  // there is memory for it

 private:
  void fill(Trainer& trainer);
  RankPart part_;
  at::Tensor memory_;                                    // of the weights
  std::optional<tritonforge::gpu::PinnedRange> pinned_;  // likewise
};

}  // namespace tritonforge::train
