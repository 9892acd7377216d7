#pragma once
// Handing out the current weights: a GPU's own memory and a safetensors file in shared memory, or a Hugging Face
// folder, with a checksum per tensor. What was published before is removed once the next is in place.
#include <array>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "base/filesystem.h"
#include "base/shared_memory.h"
#include "contract/weights.h"
#include "model/model.h"
#include "net/bulk.h"
#include "train/pinned_file.h"

namespace tritonforge::train {

class Publisher {
 public:
  // Uses /dev/shm/tritonforge-<run_id>/. What a killed trainer published stays until the next publication: an engine
  // that comes back in between is given it again.
  explicit Publisher(const std::string& run_id) : shared_(run_id) {}
  // From here on what goes to shared memory is served over TCP, too, as net/bulk.h says. Throws what net::BulkServer
  // throws.
  void serve(const std::string& host, const std::string& key);

  // weights-<version>.safetensors. kUnavailable where shared memory is too small, naming what is needed and free. Of a
  // model on a GPU the memory itself is told of as well, and the file is written after this has returned: the weights
  // may not change, nor the model go, before settle().
  PublishedWeights to_shared_memory(const model::Model& model, int64_t version);
  // FOLDER/version-<version>/, a Hugging Face folder, which `write` makes.
  PublishedWeights to_folder(int64_t version, const fs::path& folder,
                             const std::function<TensorChecksums(const fs::path& folder)>& write);
  // Waits for a file that is being written; throws what writing it threw.
  void settle();

 private:
  void write_file(const model::SafetensorsLayout& layout, const fs::path& path, int64_t version);
  SharedFolder shared_;
  std::array<std::unique_ptr<PinnedFile>, 2> files_;  // of models on a GPU: what was published last, the one before
  std::string host_;                                  // of the server, as engines are told
  std::unique_ptr<net::BulkServer> server_;           // null: weights are files alone
  std::future<void> writing_;                         // waits at its end
};

}  // namespace tritonforge::train
