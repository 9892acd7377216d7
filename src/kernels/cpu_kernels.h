#pragma once
// CPU kernels that ATen does not have, compiled once per instruction set (AVX-512, AVX2, baseline) and chosen at run
// time. One unit of work a call, one thread; the callers divide the work (kernels/paged_attention.h, kernels/sample.h),
// and name the plain reference twin of each. No ATen here: these files are compiled with their own flags.
#include <cstdint>

namespace tritonforge::kernels {

constexpr int64_t kPage = 16;  // tokens in a block of the CPU's KV cache: one vector of keys

// One token's attention over the cached keys 0..position of its sequence, in the layout of kernels/paged_attention.h.
// `Element` is float, or uint16_t holding bfloat16; `Cached` the same or uint8_t holding FP8 (kernels/fp8.h).
template <typename Element, typename Cached = Element>
struct AttendArgs {
  const Element* query;            // [group, head_dim]: the query heads that share one kv head
  Element* out;                    // [group, head_dim]
  const Cached* keys;              // of this kv head in block 0; [head_dim, kPage]
  const Cached* values;            // of this kv head in block 0; [kPage, value_stride]
  int64_t key_block, value_block;  // elements from one block to the next
  int64_t value_stride;            // head_dim rounded up to 16
  const int32_t* blocks;           // the sequence's block table
  int64_t length;                  // position + 1
  int64_t group, head_dim;
  float scale;
  float* scratch;         // attend_scratch() floats, aligned to 64 bytes
  const uint8_t* scales;  // FP8: of this kv head in block 0, [2, kPage]: its keys', its values'
  int64_t scale_block;
};
constexpr int64_t attend_scratch(int64_t group, int64_t head_dim, int64_t length) {
  return group * (head_dim + (length + kPage - 1) / kPage * kPage) + 16;
}

// c [rows, columns] = (add: c +) a [rows, inner] x b [inner, columns], as kernels/multiply.h has it.
struct MultiplyArgs {
  const float* a;       // element (r, i) at a[r * a_stride + i], or with `across` at a[i * a_stride + r]
  const float* panels;  // b: panel p holds columns 32 p to 32 p + 31 as [panel_inner, 32]
  float* c;
  int64_t a_stride, c_stride, panel_inner;
  int64_t rows, inner, columns;
  bool across, add;
};

// Rows of scores to rows of softmax and back, of kernels/packed_attention.h. Row r has `length + r * growth` entries of
// [rows, stride]; up to `padded` they are zero afterwards.
struct SoftmaxRows {
  float* scores;
  int64_t stride, rows, length, growth, padded;
  float scale;
  float *max, *inverse;  // [rows]
};

struct CpuKernels {
  const char* name;
  void (*multiply)(const MultiplyArgs&);
  // p = exp(scale * score - max) and, over each row, max and 1 / sum(p): what attend_f32 computes, to the bit.
  void (*softmax_forward)(const SoftmaxRows&);
  // From scores again p * inverse, with the max and inverse of before.
  void (*softmax_again)(const SoftmaxRows&);
  // grad of p in, grad of the scores before the scale out: p * (grad - delta[row]) * scale.
  void (*softmax_backward)(const SoftmaxRows&, const float* p, const float* delta);
  void (*attend_f32)(const AttendArgs<float>&);
  void (*attend_bf16)(const AttendArgs<uint16_t>&);
  void (*attend_f32_fp8)(const AttendArgs<float, uint8_t>&);
  void (*attend_bf16_fp8)(const AttendArgs<uint16_t, uint8_t>&);
  // Largest value and the lowest index that has it.
  void (*argmax)(const float* x, int64_t n, float* max, int64_t* index);
  // sum of exp((x - max) * factor); writes the terms to `terms` where it is not null.
  double (*sum_exp)(const float* x, int64_t n, float max, float factor, float* terms);
  // The same sum; `weighted`: the sum of exp(z) z over it, z = (x - max) * factor.
  double (*sum_exp_weighted)(const float* x, int64_t n, float max, float factor, double* weighted);
  // With z and p = exp(z) * inverse_total: x becomes p * (a + b * z), the gradient of a row of logits.
  void (*logits_backward)(float* x, int64_t n, float max, float factor, float inverse_total, float a, float b);
  // The exponential race: argmax of exp((x - max) * factor) / noise(seed, position, i); also returns the sum of the
  // numerators. The index is a draw from softmax(x * factor).
  int64_t (*race)(const float* x, int64_t n, float max, float factor, uint64_t seed, uint64_t position, double* sum);
};
const CpuKernels& cpu_kernels();           // the best that this machine runs
const CpuKernels& cpu_kernels_baseline();  // for tests
const CpuKernels* cpu_kernels_avx2();      // null where the machine cannot run it
const CpuKernels* cpu_kernels_avx512();

}  // namespace tritonforge::kernels
