// Plain C++: for any machine, and what the others are compared with.
#include "kernels/block_dot.h"

#define TF_BLOCK_TARGET "baseline"

namespace tritonforge::kernels {
namespace {

float half_at(const uint8_t* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, sizeof h);
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = h >> 10 & 0x1Fu, fraction = h & 0x3FFu;
  if (exponent == 0) {
    const float small = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -small : small;
  }
  const uint32_t bits = sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

struct Weights64 {
  int8_t q[64];
  float scale[16];
  void store(uint8_t* p) const { __builtin_memcpy(p, this, sizeof *this); }
  static Weights64 load(const uint8_t* p) {
    Weights64 w;
    __builtin_memcpy(&w, p, sizeof w);
    return w;
  }
};
static_assert(sizeof(Weights64) == 128);

struct Minima8 {
  float m[8];
  void store(uint8_t* p) const { __builtin_memcpy(p, this, sizeof *this); }
  static Minima8 load(const uint8_t* p) {
    Minima8 m;
    __builtin_memcpy(&m, p, sizeof m);
    return m;
  }
};

template <typename Number>  // number(block, i): q of number i of the block at p
Weights64 two_blocks(const uint8_t* p, int bytes, Number number) {
  Weights64 w;
  for (int block = 0; block < 2; ++block, p += bytes) {
    for (int i = 0; i < 32; ++i) w.q[32 * block + i] = static_cast<int8_t>(number(p, i));
    for (int lane = 0; lane < 8; ++lane) w.scale[8 * block + lane] = half_at(p);
  }
  return w;
}
int nibble(const uint8_t* bytes, int i) { return i < 16 ? bytes[i] & 0x0F : bytes[i - 16] >> 4; }

Weights64 q4_0(const uint8_t* p) {
  return two_blocks(p, 18, [](const uint8_t* block, int i) { return nibble(block + 2, i) - 8; });
}
Weights64 q5_0(const uint8_t* p) {
  return two_blocks(p, 22, [](const uint8_t* block, int i) {
    return (nibble(block + 6, i) | (block[2 + i / 8] >> (i % 8) & 1) << 4) - 16;
  });
}
Weights64 q8_0(const uint8_t* p) {
  return two_blocks(p, 34, [](const uint8_t* block, int i) { return static_cast<int8_t>(block[2 + i]); });
}

// d, dmin and the 6-bit scales and minima of a Q4_K or Q5_K block.
struct KScales {
  explicit KScales(const uint8_t* p) {
    const float d = half_at(p), dmin = half_at(p + 2);
    const uint8_t* packed = p + 4;
    for (int i = 0; i < 4; ++i) {
      scale[i] = d * static_cast<float>(packed[i] & 0x3F);
      minimum[i] = dmin * static_cast<float>(packed[4 + i] & 0x3F);
      scale[4 + i] = d * static_cast<float>((packed[8 + i] & 0x0F) | (packed[i] >> 2 & 0x30));
      minimum[4 + i] = dmin * static_cast<float>(packed[8 + i] >> 4 | (packed[4 + i] >> 2 & 0x30));
    }
  }
  float scale[8], minimum[8];
};
struct Q4K {
  explicit Q4K(const uint8_t* p) : scales(p), qs(p + 16) {}
  Minima8 minima() const {
    Minima8 m;
    __builtin_memcpy(m.m, scales.minimum, sizeof m.m);
    return m;
  }
  Weights64 pair(int part) const {
    Weights64 w;
    for (int i = 0; i < 32; ++i) {
      w.q[i] = static_cast<int8_t>(qs[32 * part + i] & 0x0F);
      w.q[32 + i] = static_cast<int8_t>(qs[32 * part + i] >> 4);
    }
    for (int lane = 0; lane < 16; ++lane) w.scale[lane] = scales.scale[2 * part + lane / 8];
    return w;
  }
  KScales scales;
  const uint8_t* qs;
};
struct Q5K : Q4K {
  explicit Q5K(const uint8_t* p) : Q4K(p), high(p + 16) { qs = p + 48; }
  Weights64 pair(int part) const {
    Weights64 w = Q4K::pair(part);
    for (int i = 0; i < 64; ++i) w.q[i] = static_cast<int8_t>(w.q[i] | (high[i % 32] >> (2 * part + i / 32) & 1) << 4);
    return w;
  }
  const uint8_t* high;
};
struct Q6K {
  explicit Q6K(const uint8_t* at) : p(at), d(half_at(at + 208)) {}
  Weights64 pair(int part) const {
    const uint8_t *low = p + 64 * (part / 2), *high = p + 128 + 32 * (part / 2);
    const int upper = part % 2;  // the second two of a half's four
    Weights64 w;
    for (int i = 0; i < 64; ++i) {
      const int bits = (low[i] >> (4 * upper) & 0x0F) | (high[i % 32] >> (4 * upper + 2 * (i / 32)) & 3) << 4;
      w.q[i] = static_cast<int8_t>(bits - 32);
    }
    for (int lane = 0; lane < 16; ++lane)
      w.scale[lane] = d * static_cast<float>(static_cast<int8_t>(p[192 + 4 * part + lane / 4]));
    return w;
  }
  const uint8_t* p;
  float d;
};

template <int T>
struct Sums {
  void add(const QuantisedRows& x, int64_t token, int64_t pair, const Weights64& w) {
    for (int t = 0; t < T; ++t) {
      const uint8_t* q = x.q + (token + t) * x.padded + 64 * pair;
      const float* scales = x.scales + (token + t) * x.padded / 4 + 16 * pair;
      for (int lane = 0; lane < 16; ++lane) {
        int32_t sum = 0;
        for (int i = 4 * lane; i < 4 * lane + 4; ++i) sum += w.q[i] * (static_cast<int>(q[i]) - 128);
        sums[t][lane] = __builtin_fmaf(static_cast<float>(sum) * w.scale[lane], scales[lane], sums[t][lane]);
      }
    }
  }
  void subtract(const QuantisedRows& x, int64_t token, int64_t block, const Minima8& m) {
    for (int t = 0; t < T; ++t) {
      const float* of_blocks = x.sums + (token + t) * x.padded / 32 + 8 * block;
      for (int i = 0; i < 8; ++i) minima[t][i] = __builtin_fmaf(m.m[i], of_blocks[i], minima[t][i]);
    }
  }
  float result(int t) const { return halves(sums[t], 16) - halves(minima[t], 8); }

 private:
  static float halves(const float* from, int lanes) {
    float x[16];
    __builtin_memcpy(x, from, sizeof(float) * static_cast<unsigned>(lanes));
    for (int width = lanes / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) x[i] += x[i + width];
    }
    return x[0];
  }
  float sums[T][16] = {}, minima[T][8] = {};
};

}  // namespace
}  // namespace tritonforge::kernels

#include "kernels/block_dot.inl"

namespace tritonforge::kernels {

const BlockKernels& block_kernels_baseline() { return table; }

const BlockKernels& block_kernels() {
  static const BlockKernels& best = []() -> const BlockKernels& {
    if (const BlockKernels* kernels = block_kernels_avx512()) return *kernels;
    if (const BlockKernels* kernels = block_kernels_avx2()) return *kernels;
    return table;
  }();
  return best;
}

}  // namespace tritonforge::kernels
