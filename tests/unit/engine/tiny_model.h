#pragma once
// A random model that is small enough to step through, for the engine's tests.
#include <ATen/core/grad_mode.h>

#include <memory>
#include <vector>

#include "engine/options.h"
#include "model/parts.h"

namespace tritonforge::engine {

inline model::ModelConfig tiny_config() {
  model::ModelConfig config;
  config.family = model::Family::kQwen3;
  config.hidden_size = 32;
  config.intermediate_size = 64;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.vocab_size = 200;
  config.max_position = 512;
  return config;
}

inline std::unique_ptr<model::Model> tiny_model(uint64_t seed = 1) {
  auto model = std::make_unique<model::Model>(tiny_config(), at::kFloat, at::kCPU);
  model->init_random(seed, 0.4);
  return model;
}

// The ranks' parts of the same weights, with their matrices in FP8 or not.
inline std::vector<std::unique_ptr<model::Model>> parts_of(const model::Model& whole,
                                                           const std::vector<at::Device>& devices, bool fp8 = false) {
  const at::NoGradGuard no_grad;
  std::vector<std::unique_ptr<model::Model>> ranks;
  for (const at::Device device : devices)
    ranks.push_back(std::make_unique<model::Model>(model::part_of(whole.config(), std::ssize(devices)), whole.dtype(),
                                                   device, fp8));
  const auto tensors = model::Parts(ranks).tensors();
  const auto wholes = whole.named_parameters();
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].put(wholes[i].second);
  return ranks;
}
inline std::vector<std::unique_ptr<model::Model>> parts_of(const model::Model& whole, int64_t tp, bool fp8 = false) {
  return parts_of(whole, std::vector<at::Device>(static_cast<size_t>(tp), whole.device()), fp8);
}
// What weights in FP8 stand for.
inline std::unique_ptr<model::Model> widened_copy(const model::Parts& parts) {
  const at::NoGradGuard no_grad;
  auto made = std::make_unique<model::Model>(parts.config(), parts.dtype(), parts.first().device());
  const auto to = made->named_parameters();
  const auto from = parts.tensors();
  for (size_t i = 0; i < to.size(); ++i) at::Tensor(to[i].second).copy_(from[i].whole());
  return made;
}

inline EngineOptions small_options() {
  EngineOptions options;
  options.model = "tiny";
  options.max_running = 16;
  options.max_context = 256;
  options.kv_cache_tokens = 4096;
  options.threads = 1;
  return options;
}

inline std::vector<int64_t> prompt_of(int64_t length, int64_t salt) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back((i * 7 + salt * 13 + i * i) % 200);
  return ids;
}

}  // namespace tritonforge::engine
