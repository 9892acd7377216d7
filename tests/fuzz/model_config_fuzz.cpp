// libs: tf_model
// A config.json of any bytes either gives the shape of a model that can be counted and laid out, or one Error of one
// line that names the file.
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "model/model.h"

using namespace tritonforge;

namespace {

std::string seed(const char* type, int64_t size, int64_t layers, int64_t heads, int64_t head_dim, int64_t vocab) {
  return Json{{"model_type", type},           {"hidden_size", size},          {"intermediate_size", size},
              {"num_hidden_layers", layers},  {"num_attention_heads", heads}, {"num_key_value_heads", heads},
              {"head_dim", head_dim},         {"vocab_size", vocab},          {"max_position_embeddings", 1 << 30},
              {"tie_word_embeddings", false}, {"eos_token_id", {1, 2}},       {"rope_theta", 1e6}}
      .dump();
}

// What the model has in the end is what its shape says beforehand.
bool is_counted(const model::ModelConfig& config) {
  int64_t elements = 0;
  for (const auto& [name, tensor] : model::Model(config, at::kFloat, at::kMeta).named_parameters())
    elements += tensor.numel();
  return elements == config.parameter_count();
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto config = model::model_config_from_json(parse_json(text, "config.json"), "config.json");
    const int64_t matrices = config.matrix_elements(), all = config.parameter_count();
    if (matrices <= 0 || all < matrices || all > model::kMostParameters) return 1;
    // To lay out thousands of layers takes a second, and one layer does not differ from the next.
    if (config.num_layers <= 8 && !is_counted(config)) return 1;
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.find("config.json") == std::string::npos || message.find('\n') != std::string::npos) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  constexpr int64_t kLarge = int64_t{1} << 30;
  return {seed("qw\nen", 64, 2, 4, 16, 100),
          seed("qwen3", 64, 2, 4, 16, 100),
          seed("qwen2", 999999999, 1, 1, 2, 2),
          seed("qwen3", 65536, 4, 512, 128, 9999999),
          seed("qwen3", kLarge, 4096, kLarge / 2, 2, kLarge),
          seed("qwen2", kLarge, 2, 1, 2, kLarge),
          seed("qwen2", kLarge, 8, 1 << 20, 1 << 10, 10)};
}
