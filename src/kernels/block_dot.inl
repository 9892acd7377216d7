// What the instruction sets share of block_dot.h. Included by block_dot_baseline.cpp, block_dot_avx2.cpp and
// block_dot_avx512.cpp, each compiled for its own, after it has defined in namespace tritonforge::kernels, unnamed:
//   Weights64                two blocks: q, and a scale for each of 16 lanes; store() and load() to 128 bytes
//   Minima8                  8 blocks' m
//   q4_0, q5_0, q8_0(p)      Weights64 of the two blocks at p
//   Q4K, Q5K, Q6K            a block of 256: constructed at its bytes; pair(0..3); Q4K, Q5K: minima()
//   Sums<T>                  of T tokens: add(x, token, pair, weights), subtract(x, token, block of 256, minima),
//                            result(i)
// Only built-in types and functions: nothing compiled for a newer machine may be merged with code for an older one.
#define TF_INLINE static inline __attribute__((always_inline))

namespace tritonforge::kernels {
namespace {

constexpr int kTile = 8;      // tokens whose sums stay in registers
constexpr int kAhead = 2048;  // bytes of weights that are on their way: from memory 1.3 to 1.6 times as fast as without

// The bytes kAhead after those at p: further than the hardware looks, and over the ends of pages.
template <int kBytes>
TF_INLINE void fetch(const uint8_t* p) {
  for (int at = 0; at < kBytes; at += 64) __builtin_prefetch(p + kAhead + at);
}

// Calls pair(index, Weights64) for each two blocks of a row and minima(block of 256, Minima8) where the type has them.
template <int kBytes, Weights64 (*decode)(const uint8_t*)>
struct BlocksOf32 {
  template <typename Pair, typename Minima>
  TF_INLINE void walk(const uint8_t* row, int64_t in, const Pair& pair, const Minima&) {
    const int64_t pairs = in / 64;
    for (int64_t i = 0; i < pairs; ++i) {
      fetch<2 * kBytes>(row + 2 * kBytes * i);
      pair(i, decode(row + 2 * kBytes * i));
    }
    if (in % 64 == 0) return;
    uint8_t last[2 * kBytes] = {};  // the second block's scale is 0
    __builtin_memcpy(last, row + 2 * kBytes * pairs, kBytes);
    pair(pairs, decode(last));
  }
};
template <int kBytes, typename Block, bool kMinima>
struct BlocksOf256 {
  template <typename Pair, typename Minima>
  TF_INLINE void walk(const uint8_t* row, int64_t in, const Pair& pair, const Minima& minima) {
    for (int64_t i = 0; i < in / 256; ++i) {
      fetch<kBytes>(row + kBytes * i);
      const Block block(row + kBytes * i);
      if constexpr (kMinima) minima(i, block.minima());
      for (int part = 0; part < 4; ++part) pair(4 * i + part, block.pair(part));
    }
  }
};

template <int T>
TF_INLINE void write(const BlockDotArgs& a, int64_t row, int64_t token, const Sums<T>& sums) {
  for (int i = 0; i < T; ++i) {
    const float y = sums.result(i);
    a.y[(token + i) * a.y_stride + row] = a.bias != nullptr ? y + a.bias[row] : y;
  }
}

// T tokens, decoding the row on the way.
template <typename Type, int T>
TF_INLINE void decode_and_multiply(const BlockDotArgs& a, int64_t row, int64_t token) {
  Sums<T> sums;
  Type::walk(
      a.weights + row * a.row_bytes, a.in,
      [&](int64_t pair, const Weights64& w) __attribute__((always_inline)) { sums.add(a.x, token, pair, w); },
      [&](int64_t block, const Minima8& m) __attribute__((always_inline)) { sums.subtract(a.x, token, block, m); });
  write(a, row, token, sums);
}

// T tokens, the row decoded in the scratch: its pairs, then its minima.
template <int T>
TF_INLINE void multiply(const BlockDotArgs& a, const uint8_t* minima, int64_t blocks, int64_t row, int64_t token) {
  Sums<T> sums;
  for (int64_t i = 0; i < blocks; ++i) sums.subtract(a.x, token, i, Minima8::load(minima + 32 * i));
  for (int64_t i = 0; i < a.x.padded / 64; ++i) sums.add(a.x, token, i, Weights64::load(a.scratch + 128 * i));
  write(a, row, token, sums);
}

template <typename Type>
TF_INLINE void rows_of(const BlockDotArgs& a) {
  for (int64_t row = a.begin; row < a.end; ++row) {
    int64_t token = 0;
    if (a.tokens > kTile) {
      uint8_t* minima = a.scratch + 2 * a.x.padded;
      int64_t blocks = 0;
      Type::walk(
          a.weights + row * a.row_bytes, a.in,
          [&](int64_t pair, const Weights64& w) __attribute__((always_inline)) { w.store(a.scratch + 128 * pair); },
          [&](int64_t block, const Minima8& m) __attribute__((always_inline)) {
            m.store(minima + 32 * block);
            ++blocks;
          });
      for (; token + kTile <= a.tokens; token += kTile) multiply<kTile>(a, minima, blocks, row, token);
      for (; token + 2 <= a.tokens; token += 2) multiply<2>(a, minima, blocks, row, token);
      for (; token < a.tokens; ++token) multiply<1>(a, minima, blocks, row, token);
      continue;
    }
    switch (a.tokens) {
      case 1: decode_and_multiply<Type, 1>(a, row, 0); break;
      case 2: decode_and_multiply<Type, 2>(a, row, 0); break;
      case 3: decode_and_multiply<Type, 3>(a, row, 0); break;
      case 4: decode_and_multiply<Type, 4>(a, row, 0); break;
      case 5: decode_and_multiply<Type, 5>(a, row, 0); break;
      case 6: decode_and_multiply<Type, 6>(a, row, 0); break;
      case 7: decode_and_multiply<Type, 7>(a, row, 0); break;
      default: decode_and_multiply<Type, 8>(a, row, 0); break;
    }
  }
}

void dot(const BlockDotArgs& a) {
  switch (a.type) {
    case BlockType::kQ4_0: return rows_of<BlocksOf32<18, q4_0>>(a);
    case BlockType::kQ5_0: return rows_of<BlocksOf32<22, q5_0>>(a);
    case BlockType::kQ8_0: return rows_of<BlocksOf32<34, q8_0>>(a);
    case BlockType::kQ4_K: return rows_of<BlocksOf256<144, Q4K, true>>(a);
    case BlockType::kQ5_K: return rows_of<BlocksOf256<176, Q5K, true>>(a);
    case BlockType::kQ6_K: return rows_of<BlocksOf256<210, Q6K, false>>(a);
  }
}

TF_INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

// 32 numbers; compared as bits, so that the largest is one that is not finite where there is one.
TF_INLINE void quantise_block(const float* x, uint8_t* q, float* scales, float* sum) {
  uint32_t top = 0;
  for (int i = 0; i < 32; ++i) {
    const uint32_t size = bits_of(x[i]) & 0x7FFFFFFFu;
    top = size > top ? size : top;
  }
  float largest;
  __builtin_memcpy(&largest, &top, sizeof largest);
  const bool finite = top < 0x7F800000u, zero = largest < 1e-30f;
  const float inverse = finite && !zero ? 127.0f / largest : 0.0f;
  const float d = !finite ? __builtin_nanf("") : zero ? 0.0f : largest / 127.0f;
  int32_t total = 0;
  for (int i = 0; i < 32; ++i) {
    const auto whole = finite ? static_cast<int32_t>(__builtin_rintf(x[i] * inverse)) : 0;
    q[i] = static_cast<uint8_t>(whole + 128);
    total += whole;
  }
  for (int i = 0; i < 8; ++i) scales[i] = d;
  *sum = d * static_cast<float>(total);
}

void quantise(const float* x, int64_t tokens, int64_t in, const QuantisedRows& out) {
  for (int64_t t = 0; t < tokens; ++t, x += in) {
    uint8_t* q = out.q + t * out.padded;
    float *scales = out.scales + t * out.padded / 4, *sums = out.sums + t * out.padded / 32;
    for (int64_t i = 0; i < in; i += 32) quantise_block(x + i, q + i, scales + i / 4, sums + i / 32);
    if (in == out.padded) continue;
    __builtin_memset(q + in, 128, 32);
    for (int i = 0; i < 8; ++i) scales[in / 4 + i] = 0;
    sums[in / 32] = 0;
  }
}

const BlockKernels table = {TF_BLOCK_TARGET, quantise, dot};

}  // namespace
}  // namespace tritonforge::kernels
