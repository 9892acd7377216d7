#include "model/weights.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "base/nearest.h"
#include "base/pending_folder.h"
#include "kernels/tensor_checksum.h"
#include "model/gguf_weights.h"
#include "model/weight_files.h"
#include "model/weight_source.h"

namespace tritonforge::model {
namespace {

Json read_json(const fs::path& path) {
  try {
    return parse_json(read_file(path), path.string());
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::kUsage ? ErrorKind::kCorrupt : error.kind(), error.what());
  }
}

constexpr const char *kSingle = "model.safetensors", *kIndex = "model.safetensors.index.json";

// {"weight_map": {tensor: file}}
std::map<std::string, std::string> read_weight_map(const fs::path& index_file) {
  const std::string where = index_file.string();
  const Json json = read_json(index_file);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object())
    fail(ErrorKind::kCorrupt, "{}: has no object 'weight_map'", where);
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : map->items()) {
    if (!value.is_string()) fail(ErrorKind::kCorrupt, "{}: the file of tensor '{}' is not text", where, name);
    const auto file = value.get<std::string>();
    if (fs::path(file) != fs::path(file).filename())
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' points outside the folder: {}", where, name, file);
    files.emplace(name, file);
  }
  return files;
}

class SafetensorsSource : public WeightSource {
 public:
  explicit SafetensorsSource(const fs::path& file) : label_(file.string()) {
    files_.emplace_back(file);
    for (const auto& name : files_[0].names()) index_[name] = 0;
  }
  SafetensorsSource(const fs::path& folder, const fs::path& index_file) : label_(index_file.string()) {
    std::map<std::string, size_t> opened;
    for (const auto& [name, file] : read_weight_map(index_file)) {
      auto at = opened.find(file);
      if (at == opened.end()) {
        if (!fs::exists(folder / file))
          fail(ErrorKind::kNotFound, "{}: the file of tensor '{}' is missing: {}", label_, name,
               (folder / file).string());
        at = opened.emplace(file, files_.size()).first;
        files_.emplace_back(folder / file);
      }
      if (!files_[at->second].contains(name)) {
        fail(ErrorKind::kCorrupt, "{}: tensor '{}' is missing, though {} lists it there", (folder / file).string(),
             name, label_);
      }
      index_[name] = at->second;
    }
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, file] : index_) names.push_back(name);
    return names;
  }
  bool contains(const std::string& name) const override { return index_.count(name) != 0; }
  std::vector<int64_t> shape(const std::string& name) const override { return files_[index_.at(name)].shape(name); }
  std::string where(const std::string& name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? label_ : files_[found->second].path().string();
  }
  void read(const std::string& name, at::Tensor target) const override {
    const at::Tensor stored = files_[index_.at(name)].tensor(name);
    if (!at::isFloatingType(stored.scalar_type())) {
      fail(ErrorKind::kUnsupported, "{}: tensor '{}' is {}, expected a floating dtype", where(name), name,
           c10::toString(stored.scalar_type()));
    }
    target.copy_(stored);
  }

 private:
  std::string label_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> index_;
};

bool is_gguf(const fs::path& path) { return path.extension() == ".gguf"; }

void read_all(const WeightSource& source, Model& model) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.named_parameters()) source.read(name, tensor);
}

}  // namespace

void check_tensors(const std::vector<std::pair<std::string, at::Tensor>>& parameters, const WeightSource& source,
                   bool tied) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : parameters) known.insert(name);
  for (const auto& [name, tensor] : parameters) {
    if (!source.contains(name)) {
      std::vector<std::string> others;  // a misspelt name is one that the model does not know
      for (auto& other : source.names()) {
        if (!known.count(other)) others.push_back(other);
      }
      fail(ErrorKind::kCorrupt, "{}: tensor '{}' is missing{}", source.where(name), name, nearest_hint(name, others));
    }
    const auto found = source.shape(name);
    if (found != tensor.sizes()) {
      fail(ErrorKind::kCorrupt, "{}: tensor '{}': expected shape [{}], found [{}]", source.where(name), name,
           fmt::join(tensor.sizes(), ", "), fmt::join(found, ", "));
    }
  }
  for (const auto& name : source.names()) {
    // Some tied checkpoints carry the head once more, and old ones the rope frequencies.
    if (known.count(name) || (tied && name == "lm_head.weight") || name.ends_with("rotary_emb.inv_freq")) continue;
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' is not part of this model{}", source.where(name), name,
         nearest_hint(name, std::vector<std::string>(known.begin(), known.end())));
  }
}

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return "float32";
    case at::kBFloat16: return "bfloat16";
    case at::kHalf: return "float16";
    default:
      fail(ErrorKind::kUnsupported, "a model cannot be held in {} (known: float32, bfloat16, float16)",
           c10::toString(dtype));
  }
}

std::shared_ptr<WeightSource> open_weights(const fs::path& path) {
  if (!fs::exists(path)) fail(ErrorKind::kNotFound, "no model at {}{}", path.string(), nearest_path_hint(path));
  if (is_gguf(path)) return open_gguf_weights(path);
  if (!fs::is_directory(path)) return std::make_shared<SafetensorsSource>(path);
  const auto single = path / kSingle, index = path / kIndex;
  if (fs::exists(single)) return std::make_shared<SafetensorsSource>(single);
  if (fs::exists(index)) return std::make_shared<SafetensorsSource>(path, index);
  if (fs::exists(path / "pytorch_model.bin")) {
    fail(ErrorKind::kUnsupported, "{}: pytorch_model.bin is not read (a pickle can run code); save it as safetensors",
         path.string());
  }
  fail(ErrorKind::kNotFound, "{}: holds neither {} nor {}", path.string(), kSingle, kIndex);
}

std::vector<fs::path> weight_files_in(const fs::path& folder) {
  if (fs::exists(folder / kSingle)) return {folder / kSingle};
  std::set<fs::path> files;
  if (fs::exists(folder / kIndex)) {
    for (const auto& [name, file] : read_weight_map(folder / kIndex)) files.insert(folder / file);
  } else {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors") files.insert(entry.path());
    }
  }
  if (files.empty()) fail(ErrorKind::kNotFound, "{}: no .safetensors file in the folder", folder.string());
  return {files.begin(), files.end()};
}

ModelConfig read_model_config(const fs::path& path) {
  if (!fs::exists(path)) fail(ErrorKind::kNotFound, "no model at {}{}", path.string(), nearest_path_hint(path));
  if (is_gguf(path)) return model_config_from_gguf(GgufFile(path));
  if (!fs::is_directory(path)) {
    fail(ErrorKind::kUnsupported, "{}: a model is a Hugging Face folder or a .gguf file", path.string());
  }
  const auto file = path / "config.json";
  ModelConfig config = model_config_from_json(read_json(file), file.string());
  // Chat models name further end tokens there (<|im_end|> beside <|endoftext|>).
  const auto generation = path / "generation_config.json";
  if (fs::exists(generation)) {
    const Json json = read_json(generation);
    if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: not a JSON object", generation.string());
    for (const int64_t id : read_eos_token_ids(json, generation.string())) {
      if (std::ranges::find(config.eos_token_ids, id) == config.eos_token_ids.end()) config.eos_token_ids.push_back(id);
    }
    config.validate_of(generation.string());
  }
  return config;
}

std::shared_ptr<WeightSource> open_weights_of(const ModelConfig& config, const fs::path& path) {
  std::shared_ptr<WeightSource> source = open_weights(path);
  check_tensors(Model(config, at::kFloat, at::kMeta).named_parameters(), *source, config.tie_embeddings);
  return source;
}

Model load_model(const fs::path& path, at::ScalarType dtype, at::Device device) {
  const ModelConfig config = read_model_config(path);
  const std::shared_ptr<const WeightSource> source = open_weights_of(config, path);
  Model model(config, dtype, device);
  read_all(*source, model);
  return model;
}

Model load_stored_model(const fs::path& path) {
  const ModelConfig config = read_model_config(path);
  const std::shared_ptr<const WeightSource> source = open_weights_of(config, path);
  const auto joined = [&](const std::string& prefix, const std::vector<std::string>& names) {
    kernels::BlockMatrix whole;
    for (const std::string& name : names) {
      const kernels::BlockMatrix part = source->blocks(prefix + name + ".weight");
      if (!part.defined()) return kernels::BlockMatrix{};
      whole.parts.insert(whole.parts.end(), part.parts.begin(), part.parts.end());
      whole.in = part.in;
      whole.out += part.out;
      whole.memory = part.memory;
    }
    return whole;
  };
  StoredMatrices stored{.embed_tokens = joined("model.", {"embed_tokens"})};
  if (!config.tie_embeddings) stored.lm_head = joined("", {"lm_head"});
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    stored.layers.push_back({.qkv = joined(layer, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
                             .o = joined(layer, {"self_attn.o_proj"}),
                             .gate_up = joined(layer, {"mlp.gate_proj", "mlp.up_proj"}),
                             .down = joined(layer, {"mlp.down_proj"})});
  }
  Model model(config, std::move(stored));
  read_all(*source, model);
  return model;
}

std::map<std::string, std::string> load_weights(Model& model, const fs::path& path) {
  const std::shared_ptr<const WeightSource> source = open_weights(path);
  // Nothing is written to the model before every tensor has been checked.
  check_tensors(model.named_parameters(), *source, model.config().tie_embeddings);
  read_all(*source, model);
  return weight_checksums(model);
}

std::map<std::string, std::string> weight_checksums(const Model& model) {
  return checksums_of(model.named_parameters());
}

std::map<std::string, std::string> checksums_of(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor.detach());
  const auto sums = kernels::tensor_checksums(tensors);
  std::map<std::string, std::string> checksums;
  for (size_t i = 0; i < named.size(); ++i) checksums[named[i].first] = sums[i];
  return checksums;
}

std::map<std::string, std::string> save_model(const Model& model, const fs::path& folder) {
  if (fs::exists(folder) &&
      !(fs::is_directory(folder) && (fs::is_empty(folder) || fs::exists(folder / "config.json")))) {
    fail(ErrorKind::kUsage, "{} is there and is not a model's folder: not replaced", fs::absolute(folder).string());
  }
  const PendingFolder pending(folder);
  const fs::path& content = pending.path();
  write_model_config(model.config(), model.dtype(), content);
  const WeightFiles files = weight_files({model.named_parameters()});
  if (files.size() > 1) write_weight_index(files, content);
  const auto sums = write_weight_files(files, 0, content);
  pending.put_in_place();
  return sums;
}

}  // namespace tritonforge::model
