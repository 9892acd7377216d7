#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tritonforge::model {
namespace {

std::vector<std::string> keys_of(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

// As JSON writes it: one line, whatever a file says.
std::string escaped(const std::string& text) {
  const std::string quoted = Json(text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

int64_t integer(const Json& value, const char* key, const std::string& where) {
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) {
    fail(ErrorKind::kCorrupt, "{}: field '{}' must be an integer of 64 bits, found {}", where, key,
         value.dump().substr(0, 80));
  }
  return value.get<int64_t>();
}

template <typename T>
T field(const Json& json, const char* key, const std::string& where) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) {
    fail(ErrorKind::kCorrupt, "{}: field '{}' is missing{}", where, key, nearest_hint(key, keys_of(json)));
  }
  if constexpr (std::is_same_v<T, int64_t>) return integer(*found, key, where);
  try {
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
  double theta = 10000.0;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_object()) continue;
    theta = field_or<double>(*found, "rope_theta", theta, where);
    const auto type = field_or<std::string>(*found, "rope_type", field_or<std::string>(*found, "type", "", where),
                                            where);
    if (!type.empty() && type != "default")
      fail(ErrorKind::kUnsupported, "{}: rope scaling '{}' is not supported (only 'default')", where, escaped(type));
    for (const std::string& other : keys_of(*found)) {  // a scaling, or one for each type of layer
      if (type.empty() && other != "rope_theta")
        fail(ErrorKind::kUnsupported, "{}: '{}' has '{}' and no 'rope_type'", where, key, escaped(other));
    }
  }
  config.rope_theta = field_or<double>(json, "rope_theta", theta, where);
}

void refuse_unsupported(const Json& json, const std::string& where, const ModelConfig& config) {
  const auto act = field_or<std::string>(json, "hidden_act", "silu", where);
  if (act != "silu")
    fail(ErrorKind::kUnsupported, "{}: hidden_act '{}' is not supported (only 'silu')", where, escaped(act));
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

// As int64_t, or as double, which overflows for no sizes that are looked at one by one.
template <typename Number>
Number count_matrices(const ModelConfig& c) {
  const auto of = [](int64_t size) { return static_cast<Number>(size); };
  return of(c.num_layers) * of(c.hidden_size) *
         (2 * of(c.num_heads + c.num_kv_heads) * of(c.head_dim) + 3 * of(c.intermediate_size));
}

template <typename Number>
Number count_parameters(const ModelConfig& c) {
  const auto of = [](int64_t size) { return static_cast<Number>(size); };
  const Number q = of(c.num_heads) * of(c.head_dim), kv = of(c.num_kv_heads) * of(c.head_dim);
  Number layer = 2 * of(c.hidden_size);
  if (c.attention_bias) layer += q + 2 * kv;
  if (c.output_bias()) layer += of(c.hidden_size);
  if (c.qk_norm) layer += 2 * of(c.head_dim);
  const Number table = of(c.vocab_size) * of(c.hidden_size);
  const Number head = c.predicts() ? of(c.hidden_size) + (c.tie_embeddings ? 0 : table) : 0;
  return count_matrices<Number>(c) + of(c.num_layers) * layer + (c.has_table() ? table : 0) + head;
}

}  // namespace

void ModelConfig::validate() const {
  validate_part();
  for (const int64_t id : eos_token_ids) {
    if (id < 0 || id >= vocab_size)
      fail(ErrorKind::kCorrupt, "model config: eos_token_id {} is outside the vocabulary of {}", id, vocab_size);
  }
}

void ModelConfig::validate_of(const std::string& where) const {
  try {
    validate();
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
}

void ModelConfig::validate_part() const {
  const std::pair<const char*, int64_t> positive[] = {
      {"hidden_size", hidden_size},       {"intermediate_size", intermediate_size}, {"num_hidden_layers", num_layers},
      {"num_attention_heads", num_heads}, {"num_key_value_heads", num_kv_heads},    {"head_dim", head_dim},
      {"vocab_size", vocab_size},         {"max_position_embeddings", max_position}};
  for (const auto& [name, value] : positive) {
    if (value <= 0 || value > kMostOfASize)
      fail(ErrorKind::kCorrupt, "model config: {} must be between 1 and 2^30, found {}", name, value);
  }
  if (num_layers > 4096)
    fail(ErrorKind::kCorrupt, "model config: num_hidden_layers must be at most 4096, found {}", num_layers);
  if (num_heads % num_kv_heads != 0) {
    fail(ErrorKind::kCorrupt, "model config: num_attention_heads {} is not a multiple of num_key_value_heads {}",
         num_heads, num_kv_heads);
  }
  if (head_dim % 2 != 0) fail(ErrorKind::kCorrupt, "model config: head_dim must be even, found {}", head_dim);
  if (num_heads > kMostOfASize / head_dim)
    fail(ErrorKind::kCorrupt, "model config: num_attention_heads x head_dim is too large ({} x {})", num_heads,
         head_dim);
  if (const double count = count_parameters<double>(*this); count > static_cast<double>(kMostParameters)) {
    fail(ErrorKind::kCorrupt,
         "model config: hidden_size {}, intermediate_size {}, num_hidden_layers {}, num_attention_heads {}, head_dim "
         "{} and vocab_size {} make {:.2g} parameters, more than 2^48",
         hidden_size, intermediate_size, num_layers, num_heads, head_dim, vocab_size, count);
  }
  for (const auto& [name, value] : {std::pair{"rope_theta", rope_theta}, {"rms_norm_eps", rms_norm_eps}}) {
    if (!(value > 0) || !std::isfinite(value))
      fail(ErrorKind::kCorrupt, "model config: {} must be positive and finite, found {}", name, value);
  }
}

int64_t ModelConfig::matrix_elements() const { return count_matrices<int64_t>(*this); }

int64_t ModelConfig::parameter_count() const { return count_parameters<int64_t>(*this); }

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
    fail(ErrorKind::kUnsupported, "{}: model_type '{}' is not supported{}", where, escaped(type),
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
  config.eos_token_ids = read_eos_token_ids(json, where);
  read_rope(json, where, config);
  refuse_unsupported(json, where, config);
  config.validate_of(where);
  return config;
}

std::vector<int64_t> read_eos_token_ids(const Json& json, const std::string& where) {
  const char* key = "eos_token_id";
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return {};
  if (!found->is_array()) return {integer(*found, key, where)};
  std::vector<int64_t> ids;
  for (const Json& id : *found) ids.push_back(integer(id, key, where));
  return ids;
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
