#pragma once
// A Hugging Face folder's weights as files: which tensors each of them has, who writes it, and the index that names
// them.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/filesystem.h"
#include "model/model.h"

namespace tritonforge::model {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct WeightFile {
  std::string name;
  int64_t writer = 0;
  NamedTensors tensors;  // on the meta device where somebody else has them
};
using WeightFiles = std::vector<WeightFile>;

// of_writers[w]: what writer w has. None of its files is above 5 GB but for a single tensor; model.safetensors where
// there is one file in all.
WeightFiles weight_files(const std::vector<NamedTensors>& of_writers);

// config.json of a model in dtype.
void write_model_config(const ModelConfig& config, at::ScalarType dtype, const fs::path& folder);
// model.safetensors.index.json, which a folder needs that has several files of weights, or others beside them.
void write_weight_index(const WeightFiles& files, const fs::path& folder);
// The writer's files; returns name -> checksum of its tensors.
std::map<std::string, std::string> write_weight_files(const WeightFiles& files, int64_t writer, const fs::path& folder);

// The checksums that tensors of these names, sizes and dtypes, read from the folder, have, with one of them in memory.
std::map<std::string, std::string> stored_checksums(const fs::path& folder, const NamedTensors& like);
// The file of a folder in which load_model() finds the tensor; the folder's own name where none has it.
std::string file_of_tensor(const fs::path& folder, const std::string& name);

}  // namespace tritonforge::model
