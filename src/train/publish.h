#pragma once
// Handing out the current weights: a safetensors file in shared memory, or a Hugging Face folder, with a checksum per
// tensor. What was published before is removed once the next is in place.
#include <string>

#include "base/filesystem.h"
#include "base/shared_memory.h"
#include "contract/weights.h"
#include "model/model.h"

namespace tritonforge::train {

class Publisher {
 public:
  // Uses /dev/shm/tritonforge-<run_id>/. What a killed trainer published stays until the next publication: an engine
  // that comes back in between is given it again. `tokenizer_source`: see export_model.
  Publisher(const std::string& run_id, fs::path tokenizer_source);

  // weights-<version>.safetensors. kUnavailable where shared memory is too small, naming what is needed and free.
  PublishedWeights to_shared_memory(const model::Model& model, int64_t version);
  // FOLDER/version-<version>/, a Hugging Face folder.
  PublishedWeights to_folder(const model::Model& model, int64_t version, const fs::path& folder);

 private:
  SharedFolder shared_;
  fs::path tokenizer_source_;
};

}  // namespace tritonforge::train
