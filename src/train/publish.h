#pragma once
// Handing out the current weights: a safetensors file in shared memory, or a Hugging Face folder, with a checksum per
// tensor. What was published before is removed once the next is in place.
#include <string>

#include "base/filesystem.h"
#include "contract/weights.h"
#include "model/model.h"

namespace tritonforge::train {

class Publisher {
 public:
  // Uses /dev/shm/tritonforge-<run_id>/, emptied of what a killed trainer left. `tokenizer_source`: see export_model.
  Publisher(const std::string& run_id, fs::path tokenizer_source);
  ~Publisher();  // removes the shared-memory folder
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // weights-<version>.safetensors. kUnavailable where shared memory is too small, naming what is needed and free.
  PublishedWeights to_shared_memory(const model::Model& model, int64_t version);
  // FOLDER/version-<version>/, a Hugging Face folder.
  PublishedWeights to_folder(const model::Model& model, int64_t version, const fs::path& folder);

 private:
  fs::path shared_, tokenizer_source_;
};

}  // namespace tritonforge::train
