// Compiled for AVX-512 with VNNI (CMakeLists.txt); runs only where the machine has it.
#include "kernels/block_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TF_BLOCK_TARGET "avx512_vnni"

namespace tritonforge::kernels {
namespace {

__attribute__((always_inline)) inline __m512i lanes_of(int first, int each) {  // first, `each` times; the next; ...
  int lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = first + i / each;
  return _mm512_loadu_si512(lane);
}
__attribute__((always_inline)) inline uint32_t bits_at(const uint8_t* p, int bytes) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, p, static_cast<unsigned>(bytes));
  return bits;
}
__attribute__((always_inline)) inline __m512i two_rows(const uint8_t* a, const uint8_t* b) {  // 32 bytes each
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(a))),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)), 1);
}
__attribute__((always_inline)) inline __m256i row(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
__attribute__((always_inline)) inline __m512i wide(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

struct Weights64 {
  __m512i q;
  __m512 scale;
  __attribute__((always_inline)) void store(uint8_t* p) const {
    _mm512_storeu_si512(p, q);
    _mm512_storeu_ps(p + 64, scale);
  }
  __attribute__((always_inline)) static Weights64 load(const uint8_t* p) {
    return {_mm512_loadu_si512(p), _mm512_loadu_ps(p + 64)};
  }
};

struct Minima8 {
  __m256 m;
  __attribute__((always_inline)) void store(uint8_t* p) const { _mm256_storeu_ps(reinterpret_cast<float*>(p), m); }
  __attribute__((always_inline)) static Minima8 load(const uint8_t* p) {
    return {_mm256_loadu_ps(reinterpret_cast<const float*>(p))};
  }
};

// The fp16 scales of two blocks, for 8 lanes each.
__attribute__((always_inline)) inline __m512 scales_of(const uint8_t* a, const uint8_t* b) {
  const auto both = static_cast<int>(bits_at(a, 2) | bits_at(b, 2) << 16);
  return _mm512_permutexvar_ps(lanes_of(0, 8), _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(both))));
}
// 16 bytes each: the low nibbles of a, its high ones, those of b.
__attribute__((always_inline)) inline __m512i nibbles_of(const uint8_t* a, const uint8_t* b) {
  const __m256i bytes = _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
  const __m512i twice = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3),
                                                 _mm512_castsi256_si512(bytes));
  const __m512i shifted = _mm512_srlv_epi64(twice, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
  return _mm512_and_si512(shifted, _mm512_set1_epi8(0x0F));
}

__attribute__((always_inline)) inline Weights64 q4_0(const uint8_t* p) {
  return {_mm512_sub_epi8(nibbles_of(p + 2, p + 20), _mm512_set1_epi8(8)), scales_of(p, p + 18)};
}
__attribute__((always_inline)) inline Weights64 q5_0(const uint8_t* p) {
  const uint64_t high = bits_at(p + 2, 4) | static_cast<uint64_t>(bits_at(p + 24, 4)) << 32;
  const __m512i low = nibbles_of(p + 6, p + 28);
  return {_mm512_mask_sub_epi8(low, _cvtu64_mask64(~high), low, _mm512_set1_epi8(16)), scales_of(p, p + 22)};
}
__attribute__((always_inline)) inline Weights64 q8_0(const uint8_t* p) {
  return {two_rows(p + 2, p + 36), scales_of(p, p + 34)};
}

__attribute__((always_inline)) inline float half_at(const uint8_t* p) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(bits_at(p, 2)))));
}

// Four 6-bit numbers a word.
struct KScales {
  __attribute__((always_inline)) explicit KScales(const uint8_t* p) {
    const uint32_t a = bits_at(p + 4, 4), b = bits_at(p + 8, 4), c = bits_at(p + 12, 4);
    scale = eight(half_at(p), a & 0x3F3F3F3Fu, (c & 0x0F0F0F0Fu) | (a >> 2 & 0x30303030u));
    minimum = eight(half_at(p + 2), b & 0x3F3F3F3Fu, (c >> 4 & 0x0F0F0F0Fu) | (b >> 2 & 0x30303030u));
  }
  __attribute__((always_inline)) static __m256 eight(float d, uint32_t low, uint32_t high) {
    const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(low | static_cast<uint64_t>(high) << 32));
    return _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
  }
  __m256 scale, minimum;
};
struct Q4K {
  __attribute__((always_inline)) explicit Q4K(const uint8_t* p) : scales(p), qs(p + 16) {}
  __attribute__((always_inline)) Minima8 minima() const { return {scales.minimum}; }
  __attribute__((always_inline)) Weights64 pair(int part) const {
    const __m256i bytes = row(qs + 32 * part);
    return {_mm512_and_si512(wide(bytes, _mm256_srli_epi16(bytes, 4)), _mm512_set1_epi8(0x0F)),
            _mm512_permutexvar_ps(lanes_of(2 * part, 8), _mm512_castps256_ps512(scales.scale))};
  }
  KScales scales;
  const uint8_t* qs;
};
struct Q5K : Q4K {
  __attribute__((always_inline)) explicit Q5K(const uint8_t* p) : Q4K(p), high(row(p + 16)) { qs = p + 48; }
  __attribute__((always_inline)) Weights64 pair(int part) const {
    Weights64 w = Q4K::pair(part);
    const __m512i bits = wide(_mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * part)),
                              _mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * part + 1)));
    const __mmask64 set = _mm512_test_epi8_mask(bits, _mm512_set1_epi8(1));
    w.q = _mm512_mask_add_epi8(w.q, set, w.q, _mm512_set1_epi8(16));
    return w;
  }
  __m256i high;
};
struct Q6K {
  __attribute__((always_inline)) explicit Q6K(const uint8_t* at) : p(at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 192));
    scales = _mm512_mul_ps(_mm512_set1_ps(half_at(p + 208)), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
  }
  __attribute__((always_inline)) Weights64 pair(int part) const {
    const int upper = part % 2;  // the second two of a half's four
    const __m512i low = _mm512_srl_epi16(_mm512_loadu_si512(p + 64 * (part / 2)), _mm_cvtsi32_si128(4 * upper));
    const __m256i bits = row(p + 128 + 32 * (part / 2));
    const __m512i high = wide(_mm256_srl_epi16(bits, _mm_cvtsi32_si128(4 * upper)),
                              _mm256_srl_epi16(bits, _mm_cvtsi32_si128(4 * upper + 2)));
    const __m512i q = _mm512_or_si512(_mm512_and_si512(low, _mm512_set1_epi8(0x0F)),
                                      _mm512_slli_epi16(_mm512_and_si512(high, _mm512_set1_epi8(3)), 4));
    return {_mm512_sub_epi8(q, _mm512_set1_epi8(32)), _mm512_permutexvar_ps(lanes_of(4 * part, 4), scales)};
  }
  const uint8_t* p;
  __m512 scales;
};

__attribute__((always_inline)) inline float sum_of_8(__m256 x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <int T>
struct Sums {
  __attribute__((always_inline)) Sums() {
    for (int t = 0; t < T; ++t) {
      sums[t] = _mm512_setzero_ps();
      minima[t] = _mm256_setzero_ps();
    }
  }
  // Activations are q + 128, unsigned, so that 128 times the weights comes off again: once for all tokens.
  __attribute__((always_inline)) void add(const QuantisedRows& x, int64_t token, int64_t pair, const Weights64& w) {
    const __m512i zero = _mm512_setzero_si512();
    const __m512i off = _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(-128), w.q));
    const uint8_t* q = x.q + token * x.padded + 64 * pair;
    const float* scales = x.scales + token * x.padded / 4 + 16 * pair;
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const __m512i sum = _mm512_dpbusd_epi32(off, _mm512_loadu_si512(q + t * x.padded), w.q);
      sums[t] = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), w.scale),
                                _mm512_loadu_ps(scales + t * x.padded / 4), sums[t]);
    }
  }
  __attribute__((always_inline)) void subtract(const QuantisedRows& x, int64_t token, int64_t block, const Minima8& m) {
    const float* of_blocks = x.sums + token * x.padded / 32 + 8 * block;
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t)
      minima[t] = _mm256_fmadd_ps(m.m, _mm256_loadu_ps(of_blocks + t * x.padded / 32), minima[t]);
  }
  __attribute__((always_inline)) float result(int t) const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(sums[t]), _mm512_extractf32x8_ps(sums[t], 1));
    return sum_of_8(eight) - sum_of_8(minima[t]);
  }

 private:
  __m512 sums[T];
  __m256 minima[T];
};

}  // namespace
}  // namespace tritonforge::kernels

#include "kernels/block_dot.inl"

namespace tritonforge::kernels {
const BlockKernels* block_kernels_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vnni")
             ? &table
             : nullptr;
}
}  // namespace tritonforge::kernels
#else
namespace tritonforge::kernels {
const BlockKernels* block_kernels_avx512() { return nullptr; }
}  // namespace tritonforge::kernels
#endif
