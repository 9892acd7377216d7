#include "engine/gpu_buffers.h"

#include <algorithm>

#include "engine/batch.h"
#include "engine/gpu_batch.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::engine {

int64_t widened_pages(const EngineOptions& options, const Sizes& sizes) {
  if (options.kv_cache_dtype != CacheDtype::kFp8) return 0;
  return (std::max(sizes.max_context, sizes.step_tokens) + kBlockSize - 1) / kBlockSize;
}

GpuBuffers place_gpu_buffers(const EngineOptions& options, const Sizes& sizes, const model::ModelConfig& c) {
  const auto& api = gpu::open_cuda_library();
  const int64_t rows = size_class(options.max_running), tokens = size_class(sizes.step_tokens + rows);
  const int64_t q = c.num_heads * c.head_dim, kv = c.num_kv_heads * c.head_dim;
  GpuBuffers b{};
  const auto take = [&b](size_t bytes) {
    const int64_t begin = b.bytes;
    b.bytes += (static_cast<int64_t>(bytes) + 255) / 256 * 256;
    return begin;
  };
  const auto wide = [&](int64_t width) { return take(static_cast<size_t>(tokens * width * 2)); };

  b.x = wide(c.hidden_size);
  b.normed = wide(c.hidden_size);
  b.deltas[0] = wide(c.hidden_size);
  b.deltas[1] = options.tp > 1 ? wide(c.hidden_size) : b.deltas[0];
  b.qkv = wide(q + 2 * kv);
  b.q = wide(q);
  b.attended = wide(q);
  b.gate_up = wide(2 * c.intermediate_size);
  b.activated = wide(c.intermediate_size);
  b.activations_end = b.bytes;

  b.drawn_hidden = take(static_cast<size_t>(rows * c.hidden_size * 2));
  b.logits = take(static_cast<size_t>(rows * options.tp * c.vocab_size * 4));
  b.logits_here = options.tp > 1 ? take(static_cast<size_t>(rows * c.vocab_size * 4)) : b.logits;
  const int64_t widened = widened_pages(options, sizes);
  b.inputs = take(static_cast<size_t>(
      kNumberBytes + gpu_batch_bytes(sizes.step_tokens, options.max_running, sizes.max_context, widened)));
  b.rope = take(static_cast<size_t>(sizes.max_context * c.head_dim * 4));

  b.results = take(static_cast<size_t>(rows * 8));
  b.decode_attention = take(api.decode_attention_workspace(rows, c.num_heads, c.num_kv_heads, c.head_dim));
  b.sampling = take(api.sample_workspace(rows));
  b.prefill = take(2 * sizeof(int32_t));
  b.meetings = take(static_cast<size_t>((2 * c.num_layers + 1) * options.tp) * sizeof(uint32_t));
  b.zeros_end = b.bytes;
  b.each_row = take(options.batch_invariant ? static_cast<size_t>(rows + 1) * sizeof(int32_t) : 0);
  b.scores = take(options.batch_invariant ? static_cast<size_t>(3 * rows) * sizeof(float) : 0);
  b.prefix_pieces = take(
      options.shared_prefix ? api.prefix_attention_pieces(rows, c.num_heads, c.num_kv_heads, c.head_dim) : 0);
  b.gemm = take(static_cast<size_t>(kGemmWorkspace));
  const int64_t largest = std::max(q + 2 * kv, 2 * c.intermediate_size) * c.hidden_size;
  b.wide_matrix = take(options.weight_dtype == WeightDtype::kFp8 ? static_cast<size_t>(2 * largest) : 0);
  b.widened = take(static_cast<size_t>(2 * widened * kBlockSize * kv * 2));
  return b;
}

}  // namespace tritonforge::engine
