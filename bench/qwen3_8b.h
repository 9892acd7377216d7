#pragma once
// An engine's model of Qwen3-8B's shape with random weights, and a request that every run answers alike.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kernels/device.h"
#include "model/tensor_parallel.h"

namespace tritonforge {

inline model::ModelConfig qwen3_8b(int64_t layers) {
  model::ModelConfig c;
  c.family = model::Family::kQwen3;
  c.hidden_size = 4096;
  c.intermediate_size = 12288;
  c.num_layers = layers;
  c.num_heads = 32;
  c.num_kv_heads = 8;
  c.head_dim = 128;
  c.vocab_size = 151936;
  c.max_position = 40960;
  c.qk_norm = true;
  return c;
}

// tp, stage: of a rank that has its part of it.
inline std::unique_ptr<model::Model> random_qwen3_8b(const std::string& device, int64_t layers, int64_t tp = 1,
                                                     const model::Stage& stage = {}) {
  const at::NoGradGuard no_grad;
  auto made = std::make_unique<model::Model>(model::stage_of(model::part_of(qwen3_8b(layers), tp), stage),
                                             at::kBFloat16, kernels::open_device(device));
  at::manual_seed(1);  // a GPU's generator is not the same in two processes otherwise
  for (auto& [name, tensor] : made->named_parameters()) {
    if (tensor.dim() == 2) tensor.normal_(0, 0.02);
    else tensor.fill_(1);
  }
  return made;
}

inline std::vector<int64_t> bench_prompt(int64_t length, int64_t salt, int64_t vocabulary = 151643) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < length; ++i) ids.push_back((i * 7919 + salt * 104729 + i * i) % vocabulary);
  return ids;
}

inline std::vector<int64_t> greedy_tokens(engine::Engine& engine, int64_t vocabulary = 151643) {
  std::promise<std::vector<int64_t>> done;
  engine::Request request;
  request.prompt_ids = bench_prompt(300, 1000, vocabulary);
  request.sampling.max_new_tokens = 32;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.on_output = [&done](engine::Output output) { done.set_value(output.samples[0].output_ids); };
  engine.submit(std::move(request)).value();
  return done.get_future().get();
}

}  // namespace tritonforge
