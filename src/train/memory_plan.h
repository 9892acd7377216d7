#pragma once
// What a trainer with the own passes of a GPU takes of it and of its host, in bytes, and what of the activations it
// keeps.
#include <ATen/ATen.h>

#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "model/config.h"
#include "train/config.h"

namespace tritonforge::train {

// Which activations are computed again in the backward pass instead of being kept; norms and SwiGLU always are. Of the
// first `layers` layers all but their input and attention's output, of the next `qkv_layers` q, k and v.
struct Recompute {
  int64_t layers = 0, qkv_layers = 0;
};

struct MemoryPlan {
  int64_t gradients = 0, states = 0;
  int64_t activations = 0;  // from the forward pass to the backward pass
  int64_t workspace = 0;    // what one layer needs at a time, logits, what kernels keep for themselves
  int64_t reference = 0;    // the passes of the reference model; its weights are there already, as the model's
  int64_t whole = 0;        // the model that rank 0 of tp or pp puts together, from its first publication on
  int64_t free = 0;         // before any of it
  int64_t host = 0;         // of the host's memory: states, and what they are sent through
  int64_t host_free = 0;    // for this rank
  Recompute recompute;
  int64_t total() const { return gradients + states + activations + workspace + reference; }
  bool fits() const { return total() <= free && host <= host_free; }
  std::vector<std::string> lines() const;  // one a part
};

// For `parameters` elements of weights (Model::arena) and micro-batches of config.max_tokens_per_micro_batch. Where
// config.recompute_layers is -1, as little is computed again as fits into `free`. Throws kUsage, saying what would fit,
// where nothing does. host_free: where it is known.
constexpr int64_t kUnknownHost = std::numeric_limits<int64_t>::max();
MemoryPlan plan_memory(const model::ModelConfig& shape, int64_t parameters, const TrainConfig& config, int64_t free,
                       int64_t host_free = kUnknownHost);

// Whether rank 0 of ranks that have parts of a model puts the whole of it, `bytes`, together on its GPU, of which
// `free` bytes are left then: where as much again stays free. Else it does in the host's memory.
constexpr bool puts_together_on_gpu(int64_t bytes, int64_t free) { return free > 2 * bytes; }

// Whether it was an allocation that failed, of whatever device.
bool is_out_of_memory(const std::exception& error);
// What a step that `error` ended had, and what would need less: one line. plan: null where there is none.
std::string out_of_memory(const std::exception& error, const TrainConfig& config, const MemoryPlan* plan,
                          at::Device device);

}  // namespace tritonforge::train
