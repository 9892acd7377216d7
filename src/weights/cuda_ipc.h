#pragma once
// Weights as they lie in a GPU's memory, from process to process of one host.
#include <optional>

#include "contract/weights.h"
#include "weights/staged.h"

namespace tritonforge::weights {

// Where the model lies, if that is on a GPU whose memory other processes can map; a line in the log says why not.
std::optional<DeviceWeights> offer_device(const model::Model& model);

// Maps the trainer's own memory (CUDA IPC); nothing is read yet. Throws kUnsupported where the weights cannot come this
// way: another device than a GPU that this process sees, another layout; kUsage for a handle that is none or without
// checksums; kUnavailable where it is stale, since the trainer that gave it is gone.
StagedWeights map_weights(const model::Model& model, const DeviceWeights& weights, const TensorChecksums& checksums);

}  // namespace tritonforge::weights
