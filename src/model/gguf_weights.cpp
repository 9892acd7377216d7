#include "model/gguf_weights.h"

#include <limits>
#include <map>

#include "kernels/ggml_types.h"

namespace tritonforge::model {

using kernels::dequantise;
using kernels::find_ggml_type;
using kernels::ggml_type_name;
using kernels::GgmlType;

namespace {

class GgufSource : public WeightSource, public std::enable_shared_from_this<GgufSource> {
 public:
  explicit GgufSource(const fs::path& path) : file_(path) {
    for (const auto& tensor : file_.tensors()) {
      const auto* type = find_ggml_type(tensor.type);
      if (!type) {
        fail(ErrorKind::kUnsupported,
             "{}: tensor '{}' has ggml type {}, which is not supported (known: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, "
             "Q8_0, Q4_K, Q5_K, Q6_K)",
             path.string(), tensor.name, ggml_type_name(tensor.type));
      }
      int64_t count = 1;
      for (const int64_t size : tensor.shape) {
        if (size < 0 || __builtin_mul_overflow(count, size, &count))
          fail(ErrorKind::kCorrupt, "{}: tensor '{}': shape is too large", path.string(), tensor.name);
      }
      if (tensor.shape.empty() || tensor.shape.back() % type->block != 0) {
        fail(ErrorKind::kCorrupt, "{}: tensor '{}': rows of {} are not whole blocks of {} ({})", path.string(),
             tensor.name, tensor.shape.empty() ? 0 : tensor.shape.back(), type->block, type->name);
      }
      const int64_t blocks = count / type->block;
      if (blocks > std::numeric_limits<int64_t>::max() / type->bytes)
        fail(ErrorKind::kCorrupt, "{}: tensor '{}': shape is too large", path.string(), tensor.name);
      const auto bytes = file_.data(tensor, static_cast<size_t>(blocks * type->bytes));
      const bool added = entries_.emplace(hugging_face_name(tensor.name), Entry{&tensor, type, bytes}).second;
      if (!added) fail(ErrorKind::kCorrupt, "{}: tensor '{}' is there twice", path.string(), tensor.name);
    }
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  bool contains(const std::string& name) const override { return entries_.count(name) != 0; }
  std::vector<int64_t> shape(const std::string& name) const override { return entries_.at(name).tensor->shape; }
  std::string where(const std::string&) const override { return file_.path().string(); }
  kernels::BlockMatrix blocks(const std::string& name) const override {
    const Entry& entry = entries_.at(name);
    const auto& shape = entry.tensor->shape;
    if (shape.size() != 2 || !kernels::has_block_product(*entry.type)) return {};
    const auto* data = reinterpret_cast<const uint8_t*>(entry.bytes.data());
    return {{{entry.type, data, shape[0]}}, shape[1], shape[0], shared_from_this()};
  }
  void read(const std::string& name, at::Tensor target) const override {
    const Entry& entry = entries_.at(name);
    const auto* data = reinterpret_cast<const uint8_t*>(entry.bytes.data());
    if (target.is_cpu()) return dequantise(*entry.type, data, target);
    at::Tensor staged = at::empty(target.sizes(), target.options().device(at::kCPU));
    dequantise(*entry.type, data, staged);
    target.copy_(staged);
  }

 private:
  struct Entry {
    const GgufTensor* tensor;
    const GgmlType* type;
    std::span<const std::byte> bytes;
  };
  GgufFile file_;
  std::map<std::string, Entry> entries_;
};

}  // namespace

std::string hugging_face_name(const std::string& gguf_name) {
  static const std::map<std::string, std::string> whole{{"token_embd.weight", "model.embed_tokens.weight"},
                                                        {"output_norm.weight", "model.norm.weight"},
                                                        {"output.weight", "lm_head.weight"}};
  static const std::map<std::string, std::string> parts{
      {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
      {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
      {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
      {"ffn_down", "mlp.down_proj"}};
  if (const auto found = whole.find(gguf_name); found != whole.end()) return found->second;
  const size_t layer_end = gguf_name.find('.', 4), part_end = gguf_name.rfind('.');
  if (!gguf_name.starts_with("blk.") || layer_end == std::string::npos || part_end <= layer_end) return gguf_name;
  const auto part = parts.find(gguf_name.substr(layer_end + 1, part_end - layer_end - 1));
  if (part == parts.end()) return gguf_name;
  return "model.layers." + gguf_name.substr(4, layer_end - 4) + "." + part->second + gguf_name.substr(part_end);
}

ModelConfig model_config_from_gguf(const GgufFile& file) {
  const std::string where = file.path().string();
  const std::string& architecture = file.text("general.architecture");
  ModelConfig config;
  if (architecture == "qwen2") {
    config.family = Family::kQwen2;
  } else if (architecture == "qwen3") {
    config.family = Family::kQwen3;
  } else {
    fail(ErrorKind::kUnsupported, "{}: architecture '{}' is not supported{}", where, architecture,
         nearest_hint(architecture, {"qwen2", "qwen3"}));
  }
  const auto key = [&](const char* name) { return architecture + "." + name; };
  // ModelConfig::validate() would name the keys of config.json.
  const auto size = [&](const char* name) {
    const int64_t value = file.integer(key(name));
    if (value <= 0 || value > kMostOfASize)
      fail(ErrorKind::kCorrupt, "{}: metadata '{}' must be between 1 and 2^30, found {}", where, key(name), value);
    return value;
  };
  const auto size_or = [&](const char* name, int64_t fallback) { return file.has(key(name)) ? size(name) : fallback; };
  config.hidden_size = size("embedding_length");
  config.intermediate_size = size("feed_forward_length");
  config.num_layers = size("block_count");
  config.num_heads = size("attention.head_count");
  config.num_kv_heads = size_or("attention.head_count_kv", config.num_heads);
  config.head_dim = size_or("attention.key_length", config.hidden_size / config.num_heads);
  if (size_or("attention.value_length", config.head_dim) != config.head_dim) {
    fail(ErrorKind::kUnsupported, "{}: key length {} and value length {} differ", where, config.head_dim,
         file.integer(key("attention.value_length")));
  }
  config.max_position = size_or("context_length", 32768);
  config.rms_norm_eps = file.number(key("attention.layer_norm_rms_epsilon"));
  config.rope_theta = file.has(key("rope.freq_base")) ? file.number(key("rope.freq_base")) : 10000.0;
  const std::string factor = key("rope.scaling.factor"), type = key("rope.scaling.type");
  const bool scaled = file.has(factor) && file.number(factor) != 1;
  const std::string scaling = file.has(type) ? file.text(type) : scaled ? "linear" : "none";  // as llama.cpp has it
  if (scaling != "none") fail(ErrorKind::kUnsupported, "{}: rope scaling '{}' is not supported", where, scaling);
  config.qk_norm = config.family == Family::kQwen3;
  config.attention_bias = config.family == Family::kQwen2;
  config.tie_embeddings = true;
  for (const auto& tensor : file.tensors()) {
    if (tensor.name == "output.weight") config.tie_embeddings = false;
    if (tensor.name == "token_embd.weight" && tensor.shape.size() == 2) config.vocab_size = tensor.shape[0];
  }
  if (config.vocab_size == 0) fail(ErrorKind::kCorrupt, "{}: tensor 'token_embd.weight' is missing", where);
  if (file.has("tokenizer.ggml.eos_token_id")) config.eos_token_ids = {file.integer("tokenizer.ggml.eos_token_id")};
  config.validate_of(where);
  return config;
}

std::shared_ptr<WeightSource> open_gguf_weights(const fs::path& path) { return std::make_shared<GgufSource>(path); }

}  // namespace tritonforge::model
