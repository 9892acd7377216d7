#pragma once
// How large an engine's context, step and KV cache are: from its options, the model and the memory that is free.
#include <ATen/ATen.h>

#include "engine/options.h"
#include "model/config.h"

namespace tritonforge::engine {

constexpr int64_t kBlockSize = 16;  // tokens in a block of the KV cache

struct Sizes {
  int64_t max_context;  // tokens of one sequence
  int64_t step_tokens;  // tokens of one step
  int64_t blocks;       // of the KV cache, with the one that nobody owns
};

// Throws kUsage where options contradict each other or the model, kMachine where the memory does not hold one sequence.
// `free_bytes`: what the device has left beside the weights.
Sizes size_engine(const EngineOptions& options, const model::ModelConfig& config, at::ScalarType dtype,
                  at::Device device, int64_t free_bytes);

}  // namespace tritonforge::engine
