#include "engine/sizing.h"

#include <algorithm>

#include "base/error.h"
#include "engine/attention_paged.h"

namespace tritonforge::engine {

namespace {

void check_rounds_to_fp8(const char* option, at::ScalarType model) {
  if (model == at::kFloat || model == at::kBFloat16) return;
  fail(ErrorKind::kUnsupported, "{} fp8_e4m3: of models in float32 or bfloat16, not {}", option, c10::toString(model));
}

}  // namespace

at::ScalarType cache_dtype(const EngineOptions& options, at::ScalarType model) {
  if (options.kv_cache_dtype == CacheDtype::kAuto) return model;
  check_rounds_to_fp8("--kv-cache-dtype", model);
  return at::kFloat8_e4m3fn;
}

bool fp8_matrices(const EngineOptions& options, at::ScalarType model) {
  if (options.weight_dtype == WeightDtype::kAuto) return false;
  check_rounds_to_fp8("--weight-dtype", model);
  return true;
}

Sizes size_step(const EngineOptions& options, const model::ModelConfig& config, at::Device device) {
  Sizes sizes;
  sizes.max_context = options.max_context > 0 ? options.max_context : std::min<int64_t>(config.max_position, 32768);
  if (sizes.max_context > config.max_position) {
    fail(ErrorKind::kUsage, "--max-context {} is beyond the model's {} positions", options.max_context,
         config.max_position);
  }
  const int64_t default_step = device.is_cpu() ? 1024 : 8192;
  sizes.step_tokens = std::max(options.max_step_tokens > 0 ? options.max_step_tokens : default_step,
                               options.max_running);
  return sizes;
}

void size_cache(Sizes& sizes, const EngineOptions& options, const model::ModelConfig& config, at::ScalarType dtype,
                at::Device device, int64_t affordable_bytes) {
  int64_t tokens = options.kv_cache_tokens;
  if (tokens == 0) {
    tokens = std::min(affordable_bytes / KvCache::bytes_per_token(config, dtype),
                      options.max_running * sizes.max_context);
  }
  const int64_t blocks = (tokens + kBlockSize - 1) / kBlockSize;

  // It must hold one sequence of the longest context.
  if (blocks * kBlockSize < sizes.max_context) {
    if (options.kv_cache_tokens > 0 && options.max_context > 0) {
      fail(ErrorKind::kUsage, "--kv-cache-tokens {} cannot hold one sequence of --max-context {}",
           options.kv_cache_tokens, options.max_context);
    }
    if (options.max_context > 0 || blocks < 1) {
      fail(ErrorKind::kMachine, "the free memory of {} holds a KV cache of {} tokens, less than one sequence of {}",
           device.str(), tokens, sizes.max_context);
    }
    sizes.max_context = blocks * kBlockSize;
  }
  sizes.blocks = blocks + 1;
  sizes.host_blocks = (options.kv_host_tokens + kBlockSize - 1) / kBlockSize;
}

}  // namespace tritonforge::engine
