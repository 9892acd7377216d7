#pragma once
// Weights as they lie in a GPU's memory, from process to process of one host.
#include <optional>

#include "contract/weights.h"
#include "weights/staged.h"

namespace tritonforge::weights {

// Where the model lies, if that is on a GPU whose memory other processes can map; a line in the log says why not.
std::optional<DeviceWeights> offer_device(const model::Model& model);

// The kernel and the IPC namespace of this process, within which a handle names memory.
std::string ipc_host();

// Whose memory the weights are to be mapped into.
struct Mapper {
  std::string host;  // ipc_host()
  at::Device device = at::kCPU;
  uint64_t bytes = 0;  // of its own weights
  std::string layout;
};
// Why they cannot be, as far as that is known before it is tried; empty where nothing is against it. That the process
// does not see the trainer's GPU is not: a placed run shows each process its own alone, and CUDA maps memory of the
// others, too.
std::string why_not_mapped(const DeviceWeights& weights, const Mapper& mapper);

// Maps the trainer's own memory (CUDA IPC), on the first rank's GPU, from which the others reach it; nothing is read
// yet. Throws kUnsupported where the weights cannot come this
// way: another host, another device than a GPU, another layout; kUsage for a handle that is none or without checksums;
// kUnavailable where CUDA does not map it: the trainer that gave it is gone, or its GPU's memory is out of this one's
// reach.
StagedWeights map_weights(const model::Parts& model, const DeviceWeights& weights, const TensorChecksums& checksums);

}  // namespace tritonforge::weights
