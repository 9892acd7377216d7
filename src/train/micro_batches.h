#pragma once
// Which sequences of an update stand together in a micro-batch, and which rank computes it.
#include <optional>
#include <vector>

#include "contract/step.h"
#include "train/config.h"
#include "train/prefixes.h"

namespace tritonforge::train {

// The micro-batches of data-parallel rank `rank`, in the host's memory, as they are where the trainer's weights are of
// `versions`. shape: of the whole model. sharing: none: of whole sequences. pinned: see pack_micro_batch().
std::vector<MicroBatch> micro_batches(StepKind kind, const std::vector<TrainSequence>& sequences,
                                      const TrainConfig& config, const std::vector<int64_t>& versions,
                                      const model::ModelConfig& shape, const std::optional<SharingCosts>& sharing,
                                      bool pinned, int64_t rank);

}  // namespace tritonforge::train
