// Compiled for AVX2 with FMA and F16C (CMakeLists.txt); runs only where the machine has them.
#include "kernels/block_dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TF_BLOCK_TARGET "avx2"

namespace tritonforge::kernels {
namespace {

__attribute__((always_inline)) inline uint32_t bits_at(const uint8_t* p, int bytes) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, p, static_cast<unsigned>(bytes));
  return bits;
}
__attribute__((always_inline)) inline __m256i row(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
__attribute__((always_inline)) inline float half_at(const uint8_t* p) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(bits_at(p, 2)))));
}
__attribute__((always_inline)) inline __m256i low_nibbles(__m256i x) {
  return _mm256_and_si256(x, _mm256_set1_epi8(0x0F));
}

struct Weights64 {
  __m256i q[2];
  __m256 scale[2];
  __attribute__((always_inline)) void store(uint8_t* p) const {
    for (int i = 0; i < 2; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32 * i), q[i]);
      _mm256_storeu_ps(reinterpret_cast<float*>(p + 64 + 32 * i), scale[i]);
    }
  }
  __attribute__((always_inline)) static Weights64 load(const uint8_t* p) {
    const auto* scales = reinterpret_cast<const float*>(p + 64);
    return {{row(p), row(p + 32)}, {_mm256_loadu_ps(scales), _mm256_loadu_ps(scales + 8)}};
  }
};

struct Minima8 {
  __m256 m;
  __attribute__((always_inline)) void store(uint8_t* p) const { _mm256_storeu_ps(reinterpret_cast<float*>(p), m); }
  __attribute__((always_inline)) static Minima8 load(const uint8_t* p) {
    return {_mm256_loadu_ps(reinterpret_cast<const float*>(p))};
  }
};

// 16 bytes: their low nibbles, then their high ones.
__attribute__((always_inline)) inline __m256i nibbles_of(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return low_nibbles(_mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_epi16(bytes, 4), 1));
}
// -16 for each of 32 bits that is not set.
__attribute__((always_inline)) inline __m256i less_16(uint32_t bits) {
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int>(bits)),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i one = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  return _mm256_andnot_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, one), one), _mm256_set1_epi8(-16));
}

template <int kBytes, typename Number>
__attribute__((always_inline)) inline Weights64 two_blocks(const uint8_t* p, Number number) {
  return {{number(p), number(p + kBytes)}, {_mm256_set1_ps(half_at(p)), _mm256_set1_ps(half_at(p + kBytes))}};
}
__attribute__((always_inline)) inline Weights64 q4_0(const uint8_t* p) {
  return two_blocks<18>(p, [](const uint8_t* block) __attribute__((always_inline)) {
    return _mm256_sub_epi8(nibbles_of(block + 2), _mm256_set1_epi8(8));
  });
}
__attribute__((always_inline)) inline Weights64 q5_0(const uint8_t* p) {
  return two_blocks<22>(p, [](const uint8_t* block) __attribute__((always_inline)) {
    return _mm256_or_si256(nibbles_of(block + 6), less_16(bits_at(block + 2, 4)));
  });
}
__attribute__((always_inline)) inline Weights64 q8_0(const uint8_t* p) {
  return two_blocks<34>(p, [](const uint8_t* block) __attribute__((always_inline)) { return row(block + 2); });
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
    const auto scale = [&](int i) __attribute__((always_inline)) {
      return _mm256_permutevar8x32_ps(scales.scale, _mm256_set1_epi32(i));
    };
    return {{low_nibbles(bytes), low_nibbles(_mm256_srli_epi16(bytes, 4))}, {scale(2 * part), scale(2 * part + 1)}};
  }
  KScales scales;
  const uint8_t* qs;
};
struct Q5K : Q4K {
  __attribute__((always_inline)) explicit Q5K(const uint8_t* p) : Q4K(p), high(row(p + 16)) { qs = p + 48; }
  __attribute__((always_inline)) Weights64 pair(int part) const {
    Weights64 w = Q4K::pair(part);
    for (int i = 0; i < 2; ++i) {
      const __m256i bit = _mm256_and_si256(_mm256_srl_epi16(high, _mm_cvtsi32_si128(2 * part + i)),
                                           _mm256_set1_epi8(1));
      w.q[i] = _mm256_or_si256(w.q[i], _mm256_slli_epi16(bit, 4));
    }
    return w;
  }
  __m256i high;
};
struct Q6K {
  __attribute__((always_inline)) explicit Q6K(const uint8_t* at) : p(at), d(_mm256_set1_ps(half_at(at + 208))) {}
  __attribute__((always_inline)) Weights64 pair(int part) const {
    const int upper = part % 2;  // the second two of a half's four
    const __m256i bits = row(p + 128 + 32 * (part / 2));
    // int8 scales of 16 numbers: four for the pair, each for four lanes.
    const __m256 scales = _mm256_mul_ps(
        d,
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_cvtsi32_si128(static_cast<int>(bits_at(p + 192 + 4 * part, 4))))));
    Weights64 w;
    for (int i = 0; i < 2; ++i) {
      const __m256i low = _mm256_srl_epi16(row(p + 64 * (part / 2) + 32 * i), _mm_cvtsi32_si128(4 * upper));
      const __m256i high = _mm256_and_si256(_mm256_srl_epi16(bits, _mm_cvtsi32_si128(4 * upper + 2 * i)),
                                            _mm256_set1_epi8(3));
      w.q[i] = _mm256_sub_epi8(_mm256_or_si256(low_nibbles(low), _mm256_slli_epi16(high, 4)), _mm256_set1_epi8(32));
      const int a = 2 * i, b = 2 * i + 1;
      w.scale[i] = _mm256_permutevar8x32_ps(scales, _mm256_setr_epi32(a, a, a, a, b, b, b, b));
    }
    return w;
  }
  const uint8_t* p;
  __m256 d;
};

__attribute__((always_inline)) inline float sum_of_8(__m256 x) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <int T>
struct Sums {
  __attribute__((always_inline)) Sums() {
    for (int t = 0; t < T; ++t) sums[t][0] = sums[t][1] = minima[t] = _mm256_setzero_ps();
  }
  // |w| times x with w's sign: pairs stay below 2 * 128 * 127, within 16 bits.
  __attribute__((always_inline)) void add(const QuantisedRows& x, int64_t token, int64_t pair, const Weights64& w) {
    const __m256i sizes[2] = {_mm256_abs_epi8(w.q[0]), _mm256_abs_epi8(w.q[1])};
    for (int t = 0; t < T; ++t) {
      const uint8_t* q = x.q + (token + t) * x.padded + 64 * pair;
      const float* scales = x.scales + (token + t) * x.padded / 4 + 16 * pair;
      for (int i = 0; i < 2; ++i) {
        const __m256i signed_q = _mm256_xor_si256(row(q + 32 * i), _mm256_set1_epi8(-128));
        const __m256i pairs = _mm256_maddubs_epi16(sizes[i], _mm256_sign_epi8(signed_q, w.q[i]));
        const __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        sums[t][i] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), w.scale[i]),
                                     _mm256_loadu_ps(scales + 8 * i), sums[t][i]);
      }
    }
  }
  __attribute__((always_inline)) void subtract(const QuantisedRows& x, int64_t token, int64_t block, const Minima8& m) {
    for (int t = 0; t < T; ++t) {
      minima[t] = _mm256_fmadd_ps(m.m, _mm256_loadu_ps(x.sums + (token + t) * x.padded / 32 + 8 * block), minima[t]);
    }
  }
  __attribute__((always_inline)) float result(int t) const {
    return sum_of_8(_mm256_add_ps(sums[t][0], sums[t][1])) - sum_of_8(minima[t]);
  }

 private:
  __m256 sums[T][2], minima[T];
};

}  // namespace
}  // namespace tritonforge::kernels

#include "kernels/block_dot.inl"

namespace tritonforge::kernels {
const BlockKernels* block_kernels_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") ? &table
                                                                                                           : nullptr;
}
}  // namespace tritonforge::kernels
#else
namespace tritonforge::kernels {
const BlockKernels* block_kernels_avx2() { return nullptr; }
}  // namespace tritonforge::kernels
#endif
