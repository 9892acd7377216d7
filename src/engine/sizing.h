#pragma once
// How large an engine's context, step and KV cache are: from its options, the model and the memory that is free.
#include <ATen/ATen.h>

#include "engine/options.h"
#include "model/config.h"

namespace tritonforge::engine {

constexpr int64_t kBlockSize = 16;  // tokens in a block of the KV cache

struct Sizes {
  int64_t max_context = 0;  // tokens of one sequence
  int64_t step_tokens = 0;  // tokens of one step
  int64_t blocks = 0;       // of the KV cache, with the one that nobody owns
  int64_t host_blocks = 0;  // that the host has places for
};

// What the cache of a model of this dtype holds. Throws kUnsupported where FP8 is asked for and the model is neither
// float32 nor bfloat16.
at::ScalarType cache_dtype(const EngineOptions& options, at::ScalarType model);

// Whether the layers' matrices are kept in FP8. Throws kUnsupported likewise.
bool fp8_matrices(const EngineOptions& options, at::ScalarType model);

// What one sequence and one step may hold. Throws kUsage where options contradict the model.
Sizes size_step(const EngineOptions& options, const model::ModelConfig& config, at::Device device);

// `dtype`: the cache's. Sets `blocks`, as asked for or as many as `affordable_bytes` hold and the running sequences
// could use. A context that nobody asked for shrinks to what the cache holds. Throws kUsage where options contradict
// each other, kMachine where the memory does not hold one sequence.
void size_cache(Sizes& sizes, const EngineOptions& options, const model::ModelConfig& config, at::ScalarType dtype,
                at::Device device, int64_t affordable_bytes);

}  // namespace tritonforge::engine
