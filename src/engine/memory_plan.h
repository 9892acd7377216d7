#pragma once
// What an engine's device is for, in bytes. What libtorch's operations take for themselves is not in it: `workspace`
// and `graphs` are the own GPU kernels'.
#include <cstdint>
#include <string>
#include <vector>

namespace tritonforge::engine {

struct MemoryPlan {
  int64_t weights = 0, cache = 0, cache_tokens = 0;
  int64_t graphs = 0;                 // CUDA graphs at most, and the code of kernels
  int64_t workspace = 0;              // activations, logits, inputs, what kernels keep for themselves
  int64_t left = 0;                   // free beside all of it
  int64_t host = 0, host_tokens = 0;  // of the host's memory: places for the cache's blocks
  int64_t total() const { return weights + cache + graphs + workspace; }
  std::vector<std::string> lines() const;  // one a part
};

}  // namespace tritonforge::engine
