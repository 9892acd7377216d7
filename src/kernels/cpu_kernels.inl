// The bodies of CpuKernels. Included by cpu_baseline.cpp, cpu_avx2.cpp and cpu_avx512.cpp, each compiled for its
// instruction set, with TF_CPU_TARGET naming it. Only built-in types and functions here, everything in an unnamed
// namespace: nothing compiled for a newer machine may be merged with code that runs on an older one.
#pragma GCC diagnostic ignored "-Wpsabi"
#include "kernels/cpu_kernels.h"

namespace tritonforge::kernels {
namespace {

// Vectors of one cache line: element type x lanes.
typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef uint64_t u64x8 __attribute__((vector_size(64)));

#define TF_INLINE static inline __attribute__((always_inline))

TF_INLINE f32x16 splat(float x) { return f32x16{} + x; }
TF_INLINE f32x16 load(const float* p) {
  f32x16 x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
TF_INLINE f32x16 load(const uint16_t* p) {  // bfloat16: the upper half of a float
  u16x16 x;
  __builtin_memcpy(&x, p, sizeof x);
  return (f32x16)(__builtin_convertvector(x, u32x16) << 16);
}
TF_INLINE void store(float* p, f32x16 x) { __builtin_memcpy(p, &x, sizeof x); }

// One register: what is multiplied by numbers that memory holds one by one. GCC 12 puts such a factor into a wider
// vector element by element, through memory, where registers are narrower: a hundred times slower.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
TF_INLINE Lanes load_lanes(const float* p) {
  Lanes x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
TF_INLINE Lanes load_lanes(const uint16_t* p) {
  typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));
  typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
  Halves x;
  __builtin_memcpy(&x, p, sizeof x);
  return (Lanes)(__builtin_convertvector(x, Words) << 16);
}
TF_INLINE Lanes load_lanes(const uint8_t* p) {  // e4m3, as fp8::decode
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
  Bytes x;
  __builtin_memcpy(&x, p, sizeof x);
  const Words bits = __builtin_convertvector(x, Words);
  const Lanes magnitude = (Lanes)((bits & 0x7F) << 20) * 0x1p120f;
  return (Lanes)((Words)magnitude | (bits & 0x80) << 24);
}
// Scales of FP8 rows, as fp8::factor_of.
TF_INLINE Lanes load_factors(const uint8_t* p) {
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
  Bytes x;
  __builtin_memcpy(&x, p, sizeof x);
  return (Lanes)(__builtin_convertvector(x, Words) << 23);
}
TF_INLINE void store_lanes(float* p, Lanes x) { __builtin_memcpy(p, &x, sizeof x); }
TF_INLINE float to_float(float x) { return x; }
TF_INLINE float to_float(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
TF_INLINE void narrow(float x, float& out) { out = x; }
TF_INLINE void narrow(float x, uint16_t& out) {  // round to nearest even; attention's outputs are never NaN
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  out = static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
TF_INLINE f32x16 select(i32x16 mask, f32x16 a, f32x16 b) { return (f32x16)(((i32x16)a & mask) | ((i32x16)b & ~mask)); }
TF_INLINE f32x16 maximum(f32x16 a, f32x16 b) { return select(a > b, a, b); }
TF_INLINE float largest(f32x16 x) {
  float m = x[0];
  for (int i = 1; i < 16; ++i) m = x[i] > m ? x[i] : m;
  return m;
}
TF_INLINE double total(f32x16 x) {
  double sum = 0;
  for (int i = 0; i < 16; ++i) sum += x[i];
  return sum;
}

// Cephes expf (S. Moshier): about 2 ulp; inputs below -87 give what -87 gives, about 1.6e-38; NaN stays NaN.
TF_INLINE f32x16 exponential(f32x16 x) {
  x = select(x < -87.0f, splat(-87.0f), x);
  const f32x16 shifted = x * 1.44269504088896341f + 12582912.0f;
  const f32x16 n = shifted - 12582912.0f;
  f32x16 r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  f32x16 y = splat(1.9875691500e-4f);
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1.0f;
  const i32x16 exponent = __builtin_convertvector(n, i32x16) << 23;
  return (f32x16)((i32x16)y + exponent);
}

// Cephes logf, for normal positive inputs.
TF_INLINE f32x16 logarithm(f32x16 x) {
  const i32x16 bits = (i32x16)x;
  i32x16 exponent = (bits >> 23) - 126;
  f32x16 m = (f32x16)((bits & 0x007FFFFF) | 0x3F000000);  // [0.5, 1)
  const i32x16 small = m < 0.707106781186547524f;
  exponent = exponent + small;  // a true lane is -1
  m = m + (f32x16)((i32x16)m & small) - 1.0f;
  const f32x16 z = m * m;
  f32x16 y = splat(7.0376836292e-2f);
  y = y * m - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  y = y * m * z;
  const f32x16 n = __builtin_convertvector(exponent, f32x16);
  y = y - n * 2.12194440e-4f - 0.5f * z;
  return m + y + n * 0.693359375f;
}

// A sequence's blocks lie anywhere, so no hardware fetches the next ones ahead: the place in its block table of the one
// that is worth fetching while the block of position `begin` is computed.
TF_INLINE int64_t block_soon(int64_t length, int64_t begin) {
  constexpr int64_t kAhead = 4;
  const int64_t last = (length - 1) / kPage, soon = begin / kPage + kAhead;
  return soon < last ? soon : last;
}

// Scores of G query heads against the 16 keys of each of B blocks: one chain of multiply-adds over the head's dimension
// for each, as packed_attention.h has them in training. Several blocks at once where there are few heads, to hide the
// latency of a multiply-add.
// `scales`: of each block's keys, null where these are not FP8.
template <int G, int B, typename Cached>
TF_INLINE void score_blocks(const float* q, int64_t d, const Cached* const* keys, const Cached* const* soon,
                            const uint8_t* const* scales, float scale, float* scores, int64_t stride) {
  constexpr int kParts = kPage / kLanes;
  Lanes sums[G][B * kParts];
  for (int g = 0; g < G; ++g) {
    for (int b = 0; b < B * kParts; ++b) sums[g][b] = Lanes{};
  }
  for (int64_t x = 0; x < d; ++x) {
    for (int b = 0; b < B; ++b) {
      __builtin_prefetch(soon[b] + x * kPage);
      for (int part = 0; part < kParts; ++part) {
        const Lanes key = load_lanes(keys[b] + x * kPage + part * kLanes);
        for (int g = 0; g < G; ++g) sums[g][b * kParts + part] += key * q[g * d + x];
      }
    }
  }
  for (int b = 0; b < B * kParts; ++b) {
    Lanes factor = Lanes{} + scale;
    if constexpr (sizeof(Cached) == 1) factor *= load_factors(scales[b / kParts] + b % kParts * kLanes);
    for (int g = 0; g < G; ++g) store_lanes(scores + g * stride + b * kLanes, sums[g][b] * factor);
  }
}
template <int G, int B, typename Element, typename Cached>
TF_INLINE void score_keys(const AttendArgs<Element, Cached>& a, const float* q, int64_t begin, float* scores,
                          int64_t stride) {
  const Cached *keys[B], *soon[B];
  const uint8_t* scales[B];
  for (int b = 0; b < B; ++b) {
    const int64_t block = a.blocks[begin / kPage + b];
    keys[b] = a.keys + block * a.key_block;
    soon[b] = a.keys + a.blocks[block_soon(a.length, begin + b * kPage)] * a.key_block;
    scales[b] = a.scales + block * a.scale_block;
  }
  score_blocks<G, B>(q, a.head_dim, keys, soon, scales, a.scale, scores + begin, stride);
}

// out[g, 0:16 * D] = sum over keys of scores[g, key] * values[key, 0:16 * D].
template <int G, int D, typename Element, typename Cached>
TF_INLINE void weigh_values(const AttendArgs<Element, Cached>& a, const float* scores, int64_t stride, int64_t offset,
                            const float* inverse, int64_t g0, int64_t width) {
  // G x D sums stay in registers while the keys pass by.
  constexpr int kParts = 16 * D / kLanes;
  Lanes sums[G][kParts];
  for (int g = 0; g < G; ++g) {
    for (int x = 0; x < kParts; ++x) sums[g][x] = Lanes{};
  }
  // Each value row is loaded once for all G heads.
  for (int64_t begin = 0; begin < a.length; begin += kPage) {
    const Cached* row = a.values + a.blocks[begin / kPage] * a.value_block + offset;
    const Cached* soon = a.values + a.blocks[block_soon(a.length, begin)] * a.value_block + offset;
    const int64_t count = a.length - begin < kPage ? a.length - begin : kPage;
    for (int64_t j = 0; j < count; ++j, row += a.value_stride, soon += a.value_stride) {
      Lanes value[kParts];
      for (int x = 0; x < D; ++x) __builtin_prefetch(soon + 16 * x);
      for (int x = 0; x < kParts; ++x) value[x] = load_lanes(row + kLanes * x);
      for (int g = 0; g < G; ++g) {
        for (int x = 0; x < kParts; ++x) sums[g][x] += value[x] * scores[g * stride + begin + j];
      }
    }
  }
  // Divided by the softmax's sum, and only the `width` columns that the head has.
  for (int g = 0; g < G; ++g) {
    float buffer[16 * D];
    for (int x = 0; x < kParts; ++x) store_lanes(buffer + kLanes * x, sums[g][x] * inverse[g]);
    Element* out = a.out + (g0 + g) * a.head_dim + offset;
    for (int64_t i = 0; i < width; ++i) narrow(buffer[i], out[i]);
  }
}

template <int G, typename Element, typename Cached>
TF_INLINE void attend_heads(const AttendArgs<Element, Cached>& a, const float* q, float* scores, int64_t stride,
                            int64_t g0) {
  const int64_t d = a.head_dim;
  constexpr int kTogether = G >= 4 ? 1 : (G == 1 ? 4 : 2);
  int64_t begin = 0;
  for (; begin + kTogether * kPage <= stride; begin += kTogether * kPage)
    score_keys<G, kTogether>(a, q + g0 * d, begin, scores, stride);
  for (; begin < stride; begin += kPage) score_keys<G, 1>(a, q + g0 * d, begin, scores, stride);
  float inverse[G];
  for (int g = 0; g < G; ++g) {
    float* row = scores + g * stride;
    for (int64_t i = a.length; i < stride; ++i) row[i] = -1e30f;
    f32x16 top = splat(-1e30f);
    for (int64_t i = 0; i < stride; i += 16) top = maximum(top, load(row + i));
    const float max = largest(top);
    f32x16 sum{};
    for (int64_t i = 0; i < stride; i += 16) {
      const f32x16 term = exponential(load(row + i) - max);
      store(row + i, term);
      sum += term;
    }
    inverse[g] = static_cast<float>(1.0 / total(sum));
    if constexpr (sizeof(Cached) == 1) {  // what the value rows lack
      for (int64_t i = 0; i < stride; i += kLanes) {
        const uint8_t* scales = a.scales + a.blocks[i / kPage] * a.scale_block + kPage + i % kPage;
        store_lanes(row + i, load_lanes(row + i) * load_factors(scales));
      }
    }
  }
  for (int64_t offset = 0; offset < d; offset += 64) {
    const int64_t width = d - offset < 64 ? d - offset : 64;
    switch ((width + 15) / 16) {
      case 1: weigh_values<G, 1>(a, scores, stride, offset, inverse, g0, width); break;
      case 2: weigh_values<G, 2>(a, scores, stride, offset, inverse, g0, width); break;
      case 3: weigh_values<G, 3>(a, scores, stride, offset, inverse, g0, width); break;
      default: weigh_values<G, 4>(a, scores, stride, offset, inverse, g0, width); break;
    }
  }
}

template <typename Element, typename Cached>
TF_INLINE void attend(const AttendArgs<Element, Cached>& a) {
  const int64_t stride = (a.length + kPage - 1) / kPage * kPage;
  float* q = a.scratch;
  float* scores = q + (a.group * a.head_dim + 15) / 16 * 16;
  for (int64_t i = 0; i < a.group * a.head_dim; ++i) q[i] = to_float(a.query[i]);
  for (int64_t g = 0; g < a.group; g += 4) {
    float* rows = scores + g * stride;
    switch (a.group - g) {
      case 1: attend_heads<1>(a, q, rows, stride, g); break;
      case 2: attend_heads<2>(a, q, rows, stride, g); break;
      case 3: attend_heads<3>(a, q, rows, stride, g); break;
      default: attend_heads<4>(a, q, rows, stride, g); break;
    }
  }
}

void attend_f32(const AttendArgs<float>& a) { attend(a); }
void attend_bf16(const AttendArgs<uint16_t>& a) { attend(a); }
void attend_f32_fp8(const AttendArgs<float, uint8_t>& a) { attend(a); }
void attend_bf16_fp8(const AttendArgs<uint16_t, uint8_t>& a) { attend(a); }

void argmax(const float* x, int64_t n, float* max, int64_t* index) {
  f32x16 top = splat(-__builtin_inff());
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) top = maximum(top, load(x + i));
  float best = largest(top);
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  *max = best;
  for (*index = 0; *index < n && x[*index] != best; ++*index) {}
}

double sum_exp(const float* x, int64_t n, float max, float factor, float* terms) {
  f32x16 sums{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x16 term = exponential((load(x + i) - max) * factor);
    if (terms != nullptr) store(terms + i, term);
    sums += term;
  }
  double sum = total(sums);
  for (; i < n; ++i) {
    const float term = exponential(splat((x[i] - max) * factor))[0];
    if (terms != nullptr) terms[i] = term;
    sum += term;
  }
  return sum;
}

double sum_exp_weighted(const float* x, int64_t n, float max, float factor, double* weighted) {
  f32x16 sums{}, products{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x16 z = (load(x + i) - max) * factor, term = exponential(z);
    sums += term;
    products += term * z;
  }
  double sum = total(sums);
  *weighted = total(products);
  for (; i < n; ++i) {
    const float z = (x[i] - max) * factor, term = exponential(splat(z))[0];
    sum += term;
    *weighted += term * z;
  }
  return sum;
}

void logits_backward(float* x, int64_t n, float max, float factor, float inverse_total, float a, float b) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x16 z = (load(x + i) - max) * factor;
    store(x + i, exponential(z) * inverse_total * (z * b + a));
  }
  for (; i < n; ++i) {
    const float z = (x[i] - max) * factor;
    x[i] = exponential(splat(z))[0] * inverse_total * (z * b + a);
  }
}

// Upper and lower halves of the 64-bit products of 16 pairs of 32-bit numbers: even lanes and odd lanes in two halves.
TF_INLINE void multiply(u32x16 x, uint32_t factor, u32x16& high, u32x16& low) {
  const u64x8 even = ((u64x8)x & 0xFFFFFFFFull) * static_cast<uint64_t>(factor);
  const u64x8 odd = ((u64x8)x >> 32) * static_cast<uint64_t>(factor);
  low = (u32x16)((even & 0xFFFFFFFFull) | (odd << 32));
  high = (u32x16)((even >> 32) | (odd & 0xFFFFFFFF00000000ull));
}

// Philox4x32-10 (Salmon et al., SC 2011) for 16 counters at once.
TF_INLINE void philox(u32x16 c[4], uint64_t seed) {
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    u32x16 high0, low0, high1, low1;
    multiply(c[0], 0xD2511F53u, high0, low0);
    multiply(c[2], 0xCD9E8D57u, high1, low1);
    c[0] = high1 ^ c[1] ^ k0;
    c[1] = low1;
    c[2] = high0 ^ c[3] ^ k1;
    c[3] = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// -log(1 - w) for w uniform on the centres of 2^32 intervals: fine near 0, where races are won.
TF_INLINE f32x16 exponential_noise(u32x16 bits) {
  const f32x16 high = __builtin_convertvector((i32x16)(bits >> 16), f32x16),
               low = __builtin_convertvector((i32x16)(bits & 0xFFFFu), f32x16);
  f32x16 w = high * 0x1.0p-16f + (low + 0.5f) * 0x1.0p-32f;
  const f32x16 limit = splat(0x1.FFFFFEp-1f);
  w = select(w > limit, limit, w);
  const f32x16 y = 1.0f - w;  // log1p(-w) = log(y) * -w / (y - 1), by Goldberg
  const f32x16 difference = 1.0f - y;
  const i32x16 tiny = difference == 0.0f;
  const f32x16 ratio = w / select(tiny, splat(1.0f), difference);
  return select(tiny, w, -logarithm(y) * ratio);
}

int64_t race(const float* x, int64_t n, float max, float factor, uint64_t seed, uint64_t position, double* sum) {
  const i32x16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  f32x16 sums{}, best = splat(-1.0f);
  i32x16 best_index{};
  double tail = 0;
  for (int64_t begin = 0; begin < n; begin += 64) {
    u32x16 c[4] = {(u32x16)(lanes + static_cast<int32_t>(begin / 4)), u32x16{} + static_cast<uint32_t>(position),
                   u32x16{} + static_cast<uint32_t>(position >> 32), u32x16{}};
    philox(c, seed);
    for (int word = 0; word < 4; ++word) {
      const int64_t at = begin + 16 * word;
      if (at >= n) break;
      f32x16 term;
      if (at + 16 <= n) {
        term = exponential((load(x + at) - max) * factor);
        sums += term;
      } else {
        float part[16];
        for (int lane = 0; lane < 16; ++lane) part[lane] = at + lane < n ? x[at + lane] : max;
        term = exponential((load(part) - max) * factor);
        for (int lane = 0; lane < 16; ++lane) {
          if (at + lane < n) tail += term[lane];
          else term[lane] = -1.0f;
        }
      }
      const f32x16 score = term / exponential_noise(c[word]);
      const i32x16 better = score > best;
      best = select(better, score, best);
      best_index = ((lanes + static_cast<int32_t>(at)) & better) | (best_index & ~better);
    }
  }
  *sum = total(sums) + tail;
  int winner = 0;
  for (int lane = 1; lane < 16; ++lane) {
    if (best[lane] > best[winner] || (best[lane] == best[winner] && best_index[lane] < best_index[winner]))
      winner = lane;
  }
  return best_index[winner];
}

#include "kernels/multiply.inl"

void softmax_forward(const SoftmaxRows& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    const int64_t length = a.length + r * a.growth, whole = (length + 15) / 16 * 16;
    f32x16 top = splat(-1e30f);
    for (int64_t i = 0; i < length / 16 * 16; i += 16) {
      const f32x16 score = load(row + i) * a.scale;
      store(row + i, score);
      top = maximum(top, score);
    }
    for (int64_t i = length / 16 * 16; i < length; ++i) row[i] *= a.scale;
    for (int64_t i = length; i < whole; ++i) row[i] = -1e30f;
    if (whole > length) top = maximum(top, load(row + whole - 16));
    const float max = largest(top);
    f32x16 sum{};
    for (int64_t i = 0; i < whole; i += 16) {
      const f32x16 term = exponential(load(row + i) - max);
      store(row + i, term);
      sum += term;
    }
    for (int64_t i = length; i < a.padded; ++i) row[i] = 0;
    a.max[r] = max;
    a.inverse[r] = static_cast<float>(1.0 / total(sum));
  }
}

void softmax_again(const SoftmaxRows& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    const int64_t length = a.length + r * a.growth;
    for (int64_t i = 0; i < length; i += 16)
      store(row + i, exponential(load(row + i) * a.scale - a.max[r]) * a.inverse[r]);
    for (int64_t i = length; i < a.padded; ++i) row[i] = 0;
  }
}

void softmax_backward(const SoftmaxRows& a, const float* p, const float* delta) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = a.scores + r * a.stride;
    const float* weights = p + r * a.stride;
    for (int64_t i = 0; i < a.padded; i += 16) store(row + i, load(weights + i) * (load(row + i) - delta[r]) * a.scale);
  }
}

const CpuKernels table = {
    TF_CPU_TARGET,  multiply,        softmax_forward, softmax_again, softmax_backward, attend_f32,      attend_bf16,
    attend_f32_fp8, attend_bf16_fp8, argmax,          sum_exp,       sum_exp_weighted, logits_backward, race};

}  // namespace
}  // namespace tritonforge::kernels
