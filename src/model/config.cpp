#include "model/config.h"

#include <algorithm>

namespace tritonforge::model {
namespace {

std::vector<std::string> keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

template <typename T>
T field(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    fail(ErrorKind::kCorrupt, "{}: field '{}' is missing{}", where, key, nearest_hint(key, keys_of(json)));
  }
  try {
    if constexpr (std::is_same_v<T, int64_t>) {
      if (!found->is_number_integer())
        fail(ErrorKind::kCorrupt, "{}: field '{}' must be an integer, found {}", where, key, found->dump());
    }
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorKind::kCorrupt, "{}: field '{}' has the wrong type: {}", where, key, found->dump().substr(0, 80));
  }
}

template <typename T>
T field_or(const Json& json, const char* key, T fallback, const std::string& where) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? fallback : field<T>(json, key, where);
}

void read_rope(const Json& json, const std::string& where, ModelConfig& config) {
  // transformers 4 has rope_theta and rope_scaling, transformers 5 rope_parameters with both.
  const Json* scaling = nullptr;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = json.find(key);
    if (found != json.end() && found->is_object()) scaling = &*found;
  }
  config.rope_theta = field_or<double>(
      json, "rope_theta", scaling ? field_or<double>(*scaling, "rope_theta", 10000.0, where) : 10000.0, where);
  if (!scaling) return;
  const auto type = field_or<std::string>(*scaling, "rope_type",
                                          field_or<std::string>(*scaling, "type", "default", where), where);
  if (type != "default")
    fail(ErrorKind::kUnsupported, "{}: rope scaling '{}' is not supported (only 'default')", where, type);
}

void refuse_unsupported(const Json& json, const std::string& where, const ModelConfig& config) {
  const auto act = field_or<std::string>(json, "hidden_act", "silu", where);
  if (act != "silu") fail(ErrorKind::kUnsupported, "{}: hidden_act '{}' is not supported (only 'silu')", where, act);
  if (json.contains("quantization_config") && !json["quantization_config"].is_null()) {
    fail(ErrorKind::kUnsupported, "{}: quantization_config is not supported in a Hugging Face folder (GGUF is)", where);
  }
  const bool sliding = field_or<bool>(json, "use_sliding_window", false, where);
  const auto first_sliding = field_or<int64_t>(json, "max_window_layers", 28, where);
  // null: none; left out: of both classes' 4096.
  const Json window = json.value("sliding_window", Json(4096));
  if (sliding && !window.is_null() && first_sliding < config.num_layers) {
    fail(ErrorKind::kUnsupported, "{}: sliding window attention (sliding_window {}, from layer {}) is not supported",
         where, window.dump(), first_sliding);
  }
  const auto types = json.find("layer_types");
  if (types == json.end() || !types->is_array()) return;
  for (const auto& type : *types) {
    if (type != "full_attention")
      fail(ErrorKind::kUnsupported, "{}: layer type {} is not supported (only \"full_attention\")", where, type.dump());
  }
}

}  // namespace

void ModelConfig::validate() const {
  validate_part();
  for (const int64_t id : eos_token_ids) {
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kCorrupt, "model config: eos_token_id {} is outside the vocabulary of {}", id, vocab_size);
  }
}

void ModelConfig::validate_part() const {
  const std::pair<const char*, int64_t> positive[] = {
      {"hidden_size", hidden_size},       {"intermediate_size", intermediate_size}, {"num_hidden_layers", num_layers},
      {"num_attention_heads", num_heads}, {"num_key_value_heads", num_kv_heads},    {"head_dim", head_dim},
      {"vocab_size", vocab_size},         {"max_position_embeddings", max_position}};
  for (const auto& [name, value] : positive) {
    // The upper bound keeps every product of two sizes inside int64.
    if (value <= 0 || value > int64_t{1} << 30)
      fail(ErrorKind::kCorrupt, "model config: {} must be between 1 and 2^30, found {}", name, value);
  }
  if (num_layers > 4096)
    fail(ErrorKind::kCorrupt, "model config: num_hidden_layers must be at most 4096, found {}", num_layers);
  if (num_heads % num_kv_heads != 0) {
    fail(ErrorKind::kCorrupt, "model config: num_attention_heads {} is not a multiple of num_key_value_heads {}",
         num_heads, num_kv_heads);
  }
  if (head_dim % 2 != 0) fail(ErrorKind::kCorrupt, "model config: head_dim must be even, found {}", head_dim);
  if (num_heads > (int64_t{1} << 30) / head_dim)
    fail(ErrorKind::kCorrupt, "model config: num_attention_heads x head_dim is too large ({} x {})", num_heads,
         head_dim);
  if (!(rope_theta > 0)) fail(ErrorKind::kCorrupt, "model config: rope_theta must be positive, found {}", rope_theta);
  if (!(rms_norm_eps > 0))
    fail(ErrorKind::kCorrupt, "model config: rms_norm_eps must be positive, found {}", rms_norm_eps);
}

int64_t ModelConfig::matrix_elements() const {
  return num_layers * hidden_size * (2 * (num_heads + num_kv_heads) * head_dim + 3 * intermediate_size);
}

int64_t ModelConfig::parameter_count() const {
  const int64_t q = num_heads * head_dim, kv = num_kv_heads * head_dim;
  int64_t layer = 2 * hidden_size;
  if (attention_bias) layer += q + 2 * kv;
  if (output_bias()) layer += hidden_size;
  if (qk_norm) layer += 2 * head_dim;
  const int64_t table = vocab_size * hidden_size;
  return matrix_elements() + num_layers * layer + (has_table() ? table : 0) +
         (predicts() ? hidden_size + (tie_embeddings ? 0 : table) : 0);
}

LayerRange ModelConfig::chunk_here(int64_t chunk) const {
  if (chunks.empty()) return {0, num_layers};
  LayerRange here{0, chunks[0].count};
  for (int64_t c = 1; c <= chunk; ++c) here = {here.end(), chunks[static_cast<size_t>(c)].count};
  return here;
}

int64_t ModelConfig::layer_number(int64_t index) const {
  for (const LayerRange& chunk : chunks) {
    if (index < chunk.count) return chunk.first + index;
    index -= chunk.count;
  }
  return index;
}

ModelConfig model_config_from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: not a JSON object", where);
  ModelConfig config;
  const auto type = field<std::string>(json, "model_type", where);
  if (type == "qwen2") {
    config.family = Family::kQwen2;
  } else if (type == "qwen3") {
    config.family = Family::kQwen3;
  } else {
    fail(ErrorKind::kUnsupported, "{}: model_type '{}' is not supported{}", where, type,
         nearest_hint(type, {"qwen2", "qwen3"}));
  }
  config.qk_norm = config.family == Family::kQwen3;
  config.attention_bias = config.family == Family::kQwen2 || field_or<bool>(json, "attention_bias", false, where);
  config.hidden_size = field<int64_t>(json, "hidden_size", where);
  config.intermediate_size = field<int64_t>(json, "intermediate_size", where);
  config.num_layers = field<int64_t>(json, "num_hidden_layers", where);
  config.num_heads = field<int64_t>(json, "num_attention_heads", where);
  config.num_kv_heads = field_or<int64_t>(json, "num_key_value_heads", config.num_heads, where);
  // Qwen3's class defaults to 128, Qwen2's to hidden_size / heads.
  const int64_t per_head = config.num_heads > 0 ? config.hidden_size / config.num_heads : 0;
  config.head_dim = field_or<int64_t>(json, "head_dim", config.family == Family::kQwen3 ? 128 : per_head, where);
  config.vocab_size = field<int64_t>(json, "vocab_size", where);
  config.max_position = field_or<int64_t>(json, "max_position_embeddings", 32768, where);
  config.rms_norm_eps = field_or<double>(json, "rms_norm_eps", 1e-6, where);
  config.tie_embeddings = field_or<bool>(json, "tie_word_embeddings", false, where);
  const auto eos = json.find("eos_token_id");
  if (eos != json.end() && eos->is_array()) {
    config.eos_token_ids = field<std::vector<int64_t>>(json, "eos_token_id", where);
  } else if (eos != json.end() && !eos->is_null()) {
    config.eos_token_ids = {field<int64_t>(json, "eos_token_id", where)};
  }
  read_rope(json, where, config);
  refuse_unsupported(json, where, config);
  try {
    config.validate();
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
  return config;
}

Json to_json(const ModelConfig& config) {
  const bool qwen3 = config.family == Family::kQwen3;
  Json json = {{"architectures", {qwen3 ? "Qwen3ForCausalLM" : "Qwen2ForCausalLM"}},
               {"model_type", qwen3 ? "qwen3" : "qwen2"},
               {"hidden_act", "silu"},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"head_dim", config.head_dim},
               {"vocab_size", config.vocab_size},
               {"max_position_embeddings", config.max_position},
               {"rope_theta", config.rope_theta},
               {"rms_norm_eps", config.rms_norm_eps},
               {"tie_word_embeddings", config.tie_embeddings},
               {"use_sliding_window", false},
               {"attention_dropout", 0.0}};
  if (qwen3) json["attention_bias"] = config.attention_bias;
  if (config.eos_token_ids.size() == 1) json["eos_token_id"] = config.eos_token_ids[0];
  if (config.eos_token_ids.size() > 1) json["eos_token_id"] = config.eos_token_ids;
  return json;
}

}  // namespace tritonforge::model
