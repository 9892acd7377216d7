#pragma once
// Weights from host to host: the trainer's file in shared memory, fetched in pieces over parallel connections
// (net/bulk.h) into memory of the engine's process.
#include <string>

#include "base/clock.h"
#include "contract/weights.h"
#include "net/bulk.h"
#include "weights/staged.h"

namespace tritonforge::weights {

// Throws what net::bulk_fetch() and stage_files() throw; kCorrupt, before anything is fetched, where the file's size is
// none that this model's weights can have.
StagedWeights fetch_weights(const model::Parts& model, const PublishedWeights& weights, const std::string& key,
                            Deadline deadline);

// Memory for a file that comes over the network: large pages where the system has them, given back at the end.
class FetchedFile {
 public:
  explicit FetchedFile(size_t bytes);  // throws kMachine
  ~FetchedFile();
  FetchedFile(const FetchedFile&) = delete;
  FetchedFile& operator=(const FetchedFile&) = delete;
  std::span<std::byte> bytes() const { return {begin_, size_}; }

 private:
  std::byte* begin_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tritonforge::weights
