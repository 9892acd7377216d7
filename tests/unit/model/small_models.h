#pragma once
// Models small enough for tests of arithmetic.
#include "model/model.h"

namespace tritonforge::model::testing_models {

inline ModelConfig small_config(Family family) {
  ModelConfig config;
  config.family = family;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_layers = 3;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 40;
  config.max_position = 128;
  config.rope_theta = 10000.0;
  config.qk_norm = family == Family::kQwen3;
  config.attention_bias = family == Family::kQwen2;
  config.tie_embeddings = family == Family::kQwen2;
  return config;
}

inline Model small_model(const ModelConfig& config, at::ScalarType dtype = at::kFloat) {
  Model model(config, dtype, at::kCPU);
  model.init_random(7, 0.2);
  return model;
}

inline at::Tensor forward_hidden(const Model& model, const at::Tensor& ids) {
  return model.forward(ids, at::arange(ids.size(0), at::kLong), packed_attention({0, ids.size(0)}));
}

}  // namespace tritonforge::model::testing_models
