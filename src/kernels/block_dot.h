#pragma once
// Rows of numbers in ggml's blocks times rows of activations, from the bytes as a GGUF file holds them; compiled once
// per instruction set and chosen at run time, with the same bits from each. One thread a call, no ATen here.
//
// Activations: of each block of 32 numbers x, d = max|x| / 127 and q = round(x / d), half to even, -127 to 127; a block
// below 1e-30 is zero, one that holds what is not finite makes every product with it NaN.
// Weights: w_i = s_i q_i - m_i with whole q_i; blocks of 32, in ggml's order:
//   Q4_0, Q5_0, Q8_0   q of 4, 5, 8 bits less 8, 16, 0; s = d of the block, m = 0
//   Q4_K, Q5_K         q of 4, 5 bits; s = d scale, m = dmin minimum of the block's eighth (scales of 6 bits)
//   Q6_K               q of 6 bits less 32; s = d scale of 16 numbers, m = 0
// One product of a row of `in` numbers, b over its blocks of 32, l over 8 lanes of 4 numbers each:
//   sums[8 (b mod 2) + l] = fma(s_bl float(sum over the lane of q_w q_x), d_b, sums[...])     b in order; sums exact
//   minima[b mod 8]       = fma(m_b, d_b float(sum over the block of q_x), minima[...])
//   y = halves(sums) - halves(minima) [+ bias]       halves: the upper half of the lanes added to the lower, until one
// So a product depends on its row and its activations alone: not on the batch, the threads or the machine.
// Beside exact activations it is off by at most sum over b of d_b / 2 * sum over the block of |w|, and by rounding of
// fp32 sums (tests/unit/kernels/block_product_test.cpp holds it to that).
#include <cstdint>

namespace tritonforge::kernels {

enum class BlockType : uint32_t { kQ4_0 = 2, kQ5_0 = 6, kQ8_0 = 8, kQ4_K = 12, kQ5_K = 13, kQ6_K = 14 };  // as in GGUF

// Rows of activations, padded with zeros to `padded`, the next multiple of 64.
struct QuantisedRows {
  uint8_t* q;     // [tokens, padded] q + 128
  float* scales;  // [tokens, padded / 4] d of each lane's block: 8 times the same
  float* sums;    // [tokens, padded / 32] d float(sum of q)
  int64_t padded;
};
constexpr int64_t padded_row(int64_t in) { return (in + 63) / 64 * 64; }

struct BlockDotArgs {
  BlockType type;
  const uint8_t* weights;  // of row 0; rows of `in` numbers, whole blocks, without gaps
  int64_t row_bytes, in;
  int64_t begin, end;  // the rows to compute
  QuantisedRows x;
  int64_t tokens;
  float* y;  // y[token * y_stride + row]
  int64_t y_stride;
  const float* bias;  // of row 0, or null
  uint8_t* scratch;   // block_dot_scratch(in) bytes, aligned to 64
};
// One row's numbers and scales as bytes and floats: made once for many tokens.
constexpr int64_t block_dot_scratch(int64_t in) { return padded_row(in) * 2 + in / 8 + 64; }

struct BlockKernels {
  const char* name;
  // x [tokens, in] fp32, rows one after another.
  void (*quantise)(const float* x, int64_t tokens, int64_t in, const QuantisedRows& out);
  void (*dot)(const BlockDotArgs&);
};
const BlockKernels& block_kernels();           // the best that this machine runs
const BlockKernels& block_kernels_baseline();  // plain C++; for tests
const BlockKernels* block_kernels_avx2();      // null where the machine cannot run it
const BlockKernels* block_kernels_avx512();    // with VNNI

}  // namespace tritonforge::kernels
