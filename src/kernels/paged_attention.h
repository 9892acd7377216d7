#pragma once
// Attention over a paged KV cache on the CPU.
//
// One layer's cache, elements of the model's dtype (float or bfloat16), blocks of kPage = 16 tokens:
//   keys   [blocks, kv_heads, head_dim, 16]         transposed, so that one vector holds 16 keys of one dimension
//   values [blocks, kv_heads, 16, head_dim to 16]   rows padded to whole vectors
// or in FP8 (kernels/fp8.h), in the same places, with the scales of the rows:
//   scales [blocks, kv_heads, 2, 16] bytes          of the keys, of the values
// Token t of a sequence lies in block block_table[t / 16] at place t % 16; its slot is block * 16 + place.
// head_dim must be a multiple of 4. Each token's result depends on its own sequence alone, whatever else is in the
// batch.
#include <ATen/ATen.h>

namespace tritonforge::kernels {

struct PagedLayer {
  at::Tensor keys, values;
  at::Tensor scales;  // undefined where the cache is not FP8
};
// dtype: float32, bfloat16, or float8_e4m3fn for tokens of either.
PagedLayer make_paged_layer(int64_t blocks, int64_t kv_heads, int64_t head_dim, at::ScalarType dtype);

// k, v [tokens, kv_heads, head_dim] into slots [tokens] int64. FP8: rounded row by row.
void paged_write(const PagedLayer& layer, const at::Tensor& k, const at::Tensor& v, const at::Tensor& slots);

// q [tokens, heads, head_dim]; block_tables [sequences, width] int32; sequence_of [tokens] int64, the row of
// block_tables or -1 for a padded token (its output is zero); positions [tokens] int64: a token attends to the keys
// 0..position of its sequence. Returns [tokens, heads, head_dim].
at::Tensor paged_attention(const PagedLayer& layer, const at::Tensor& q, const at::Tensor& block_tables,
                           const at::Tensor& sequence_of, const at::Tensor& positions, double scale);

// x [..., d] as an FP8 cache gives it back: each row of d numbers rounded.
at::Tensor fp8_rounded(const at::Tensor& x);

// The plain twin: gathers each token's keys and values and computes in float64.
at::Tensor paged_attention_reference(const PagedLayer& layer, const at::Tensor& q, const at::Tensor& block_tables,
                                     const at::Tensor& sequence_of, const at::Tensor& positions, double scale);

}  // namespace tritonforge::kernels
