#pragma once
// The shape of a model: Qwen2.5 and Qwen3 dense, from config.json or GGUF metadata.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge::model {

enum class Family { kQwen2, kQwen3 };

// What a file may ask for: the largest of its sizes, and the most parameters. Bytes, rows and multiples of them for
// every option of training and serving stay within int64.
constexpr int64_t kMostOfASize = int64_t{1} << 30, kMostParameters = int64_t{1} << 48;

// Layers of a model, one after the other.
struct LayerRange {
  int64_t first = 0, count = 0;
  int64_t end() const { return first + count; }
};

struct ModelConfig {
  Family family = Family::kQwen3;
  int64_t hidden_size = 0, intermediate_size = 0, num_layers = 0;
  int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t vocab_size = 0;  // rows of the embedding (may exceed the tokenizer's)
  int64_t max_position = 0;
  double rope_theta = 1e6, rms_norm_eps = 1e-6;
  bool tie_embeddings = false;
  bool attention_bias = false;  // Qwen2: q, k, v have biases, always; Qwen3: q, k, v, o, where config.json says so
  bool qk_norm = true;          // Qwen3: RMSNorm on each head of q and k before rope
  std::vector<int64_t> eos_token_ids;
  // Of a pipeline's stage (model/stages.h): the model's layers that its own are, chunk after chunk, and how many the
  // model has. None, 0: all of them are here.
  std::vector<LayerRange> chunks;
  int64_t whole_layers = 0;

  bool embeds() const { return chunks.empty() || chunks.front().first == 0; }
  bool predicts() const { return chunks.empty() || chunks.back().end() == whole_layers; }
  bool has_table() const { return embeds() || (predicts() && tie_embeddings); }  // the embedding's
  bool output_bias() const { return attention_bias && family == Family::kQwen3; }
  // Throw kCorrupt naming the field; afterwards no count below overflows. A rank's part of a model need not have its
  // tokens in its rows of the vocabulary.
  void validate() const;
  void validate_of(const std::string& where) const;  // with the file's name in front
  void validate_part() const;
  int64_t parameter_count() const;
  int64_t matrix_elements() const;  // of the matrices of the layers that are here
  int64_t chunk_count() const { return std::max<int64_t>(1, std::ssize(chunks)); }
  LayerRange chunk_here(int64_t chunk) const;  // which of the layers that are here are the chunk's
  int64_t layer_number(int64_t index) const;   // in the whole model, of a layer that is here
};

// Throws kUnsupported by name for what is not implemented (another model_type, rope scaling, sliding window in use).
ModelConfig model_config_from_json(const Json& json, const std::string& where);
Json to_json(const ModelConfig& config);  // Hugging Face's config.json

// eos_token_id of config.json and generation_config.json: one, several, null or left out.
std::vector<int64_t> read_eos_token_ids(const Json& json, const std::string& where);

}  // namespace tritonforge::model
