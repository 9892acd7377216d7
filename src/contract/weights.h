#pragma once
// A version of the weights on its way from the trainer to the engines.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge {

using TensorChecksums = std::map<std::string, std::string>;  // Hugging Face name -> kernels/tensor_checksum.h

// Where the weights lie in a GPU's memory, for processes of the same host: valid while the trainer holds them, and
// unchanged until its next step.
struct DeviceWeights {
  std::string host;                // whose kernel and IPC namespace (weights/cuda_ipc.h): elsewhere a handle is nothing
  std::string device;              // the GPU's UUID
  std::string handle;              // cudaIpcMemHandle_t in hex: of the allocation
  uint64_t offset = 0, bytes = 0;  // the weights in it
  std::string layout;              // model::Model::layout(): which bytes are which weight
};

// Where they can be fetched from over TCP (net/bulk.h), with the run's key: the same bytes as those of the file.
inline constexpr const char* kWeightsKey = "TRITONFORGE_WEIGHTS_KEY";  // the variable in which both ends have it
struct StreamedWeights {
  std::string host;  // an address
  int port = 0;
};

// Where who wants them meets the trainer's ranks that send them, each its part (weights/desk.h), with the run's key.
struct GroupedWeights {
  std::string host;  // an address
  int port = 0;
  int64_t tp = 1, pp = 1, pp_chunks = 1;  // which parts the ranks have (weights/reshard.h)
  std::string dtype, plan;                // of what is sent: float32 | bfloat16; a checksum of its names and shapes
  bool nccl = false;                      // the ranks are on GPUs
};

// What every engine must serve, and each way in which it can be had.
struct PublishedWeights {
  fs::path path;  // a safetensors file in shared memory, or a Hugging Face folder; "": there is none
  int64_t version = 0;
  TensorChecksums checksums;  // empty: nobody computed them
  // The same weights where they can be had sooner. The file is being written then, and is whole once it is there.
  std::optional<DeviceWeights> device;
  std::optional<StreamedWeights> tcp = std::nullopt;  // for engines that do not see the file
  std::optional<GroupedWeights> group = std::nullopt;
  bool can_be_had() const { return !path.empty() || device || tcp || group; }  // else they are the engine's own model
};
// A Hugging Face folder that the trainer wrote, as a version: with the checksums that lie beside its tensors, empty
// where none do. Throws kCorrupt naming the file.
inline constexpr const char* kChecksumsFile = "checksums.json";  // {name: checksum}
PublishedWeights exported_weights(const fs::path& folder, int64_t version);

Json to_json(const DeviceWeights& weights);
DeviceWeights device_weights_from_json(const Json& json);  // throws kUsage naming the field
Json to_json(const StreamedWeights& weights);
StreamedWeights streamed_weights_from_json(const Json& json);  // throws kUsage naming the field
Json to_json(const GroupedWeights& weights);
GroupedWeights grouped_weights_from_json(const Json& json);  // throws kUsage naming the field
Json to_json(const PublishedWeights& weights);
PublishedWeights published_weights_from_json(const Json& json);  // throws kUsage naming the field

// What one engine says it serves now.
struct InstalledWeights {
  std::string engine;  // its URL
  int64_t version = 0;
  TensorChecksums checksums;  // of what it installed; empty where the engine computes none (SGLang)
};
// An engine's reply to an update of its weights. Throws kUsage naming the engine and the field.
InstalledWeights installed_weights_from_json(const std::string& engine, const Json& json);
// Throws kCorrupt naming the engine and the first tensor that is not the publisher's, or the version.
void check_installed(const InstalledWeights& installed, const PublishedWeights& published);

}  // namespace tritonforge
