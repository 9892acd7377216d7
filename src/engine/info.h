#pragma once
// What an engine tells about itself.
#include <cstdint>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "engine/memory_plan.h"

namespace tritonforge::engine {

struct EngineInfo {
  std::string model_path, device, dtype, kv_cache_dtype, weight_dtype, family;
  int64_t tp = 1;  // ranks; `device` and `memory` are the first one's
  int64_t vocab_size = 0, max_context = 0, kv_cache_tokens = 0, parameters = 0;
  std::vector<int64_t> eos_token_ids;
  bool has_tokenizer = false;
  MemoryPlan memory;
};

// What of an engine's memory is given back and taken again: the cache with all that steps need, and the weights.
struct MemoryParts {
  bool cache = true, weights = true;
};

// Seconds that the engine's thread spent in each part of its steps since the start. Where the device works by itself,
// `forward` is the time to queue the work and `draw` the wait for its tokens.
struct StageSeconds {
  double plan = 0, fill = 0, forward = 0, draw = 0, deliver = 0;
};

struct EngineStats {
  int64_t running = 0, waiting = 0, weight_version = 0;  // -1: none, an update went wrong halfway
  int64_t kv_tokens_free = 0, kv_tokens_total = 0, prefix_blocks = 0;
  int64_t host_blocks = 0;                           // of them on the host
  int64_t blocks_to_host = 0, blocks_from_host = 0;  // copied since the start
  int64_t steps = 0, prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0, preemptions = 0, failed_steps = 0;
  int64_t drafted_tokens = 0, accepted_drafts = 0;  // verified, and those of them that were drawn
  int64_t graph_steps = 0, graph_nodes = 0;         // steps of one launch, and the kernels and copies in them
  int64_t finished_requests = 0, aborted_requests = 0;
  int64_t ended_samples = 0;  // of all requests that were taken, refused ids included
  double step_seconds = 0;    // spent in steps since the start
  StageSeconds stages;
  // Of requests that ended: until their first token was planned; until it was there; until their end; and between a
  // sample's first token and its last, a token.
  SecondsHistogram queue_time, first_token_time, request_time, token_time;
  bool paused = false;
  bool cache_released = false, weights_released = false;  // their memory was given back
  bool memory_released() const { return cache_released || weights_released; }
  bool draining = false;  // new weights wait until the requests under way have ended
  int64_t consecutive_failures = 0;
  std::string last_failure;  // of a step; empty while the last one went well
};

}  // namespace tritonforge::engine
