#include "model/weight_files.h"

#include "base/json.h"
#include "model/weight_source.h"
#include "model/weights.h"

namespace tritonforge::model {
namespace {

constexpr int64_t kLargest = 5'000'000'000;

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

}  // namespace

WeightFiles weight_files(const std::vector<NamedTensors>& of_writers) {
  WeightFiles files;
  for (size_t writer = 0; writer < of_writers.size(); ++writer) {
    int64_t in_file = 0;
    for (const auto& [name, tensor] : of_writers[writer]) {
      if (in_file == 0 || in_file + bytes_of(tensor) > kLargest) {
        files.push_back({.writer = static_cast<int64_t>(writer)});
        in_file = 0;
      }
      files.back().tensors.emplace_back(name, tensor);
      in_file += bytes_of(tensor);
    }
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name = files.size() == 1 ? "model.safetensors"
                                      : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  }
  return files;
}

void write_model_config(const ModelConfig& config, at::ScalarType dtype, const fs::path& folder) {
  Json json = to_json(config);
  json["torch_dtype"] = dtype_name(dtype);
  write_file_atomic(folder / "config.json", json.dump(2) + "\n");
}

void write_weight_index(const WeightFiles& files, const fs::path& folder) {
  Json map = Json::object();
  int64_t total = 0;
  for (const WeightFile& file : files) {
    for (const auto& [name, tensor] : file.tensors) {
      map[name] = file.name;
      total += bytes_of(tensor);
    }
  }
  write_file_atomic(folder / "model.safetensors.index.json",
                    Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
}

std::map<std::string, std::string> write_weight_files(const WeightFiles& files, int64_t writer,
                                                      const fs::path& folder) {
  std::map<std::string, std::string> sums;
  for (const WeightFile& file : files) {
    if (file.writer == writer) sums.merge(save_safetensors(file.tensors, folder / file.name, {{"format", "pt"}}));
  }
  return sums;
}

std::map<std::string, std::string> stored_checksums(const fs::path& folder, const NamedTensors& like) {
  const std::shared_ptr<WeightSource> source = open_weights(folder);
  std::map<std::string, std::string> sums;
  for (const auto& [name, tensor] : like) {
    const at::Tensor stored = at::empty(tensor.sizes(), tensor.scalar_type());
    source->read(name, stored);
    sums.merge(checksums_of({{name, stored}}));
  }
  return sums;
}

std::string file_of_tensor(const fs::path& folder, const std::string& name) {
  const std::shared_ptr<WeightSource> source = open_weights(folder);
  return source->contains(name) ? source->where(name) : folder.string();
}

}  // namespace tritonforge::model
