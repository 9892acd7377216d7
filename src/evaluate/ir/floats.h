#pragma once
// Conversions between float32 and the narrow floats, round to nearest even, as the hardware's.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "evaluate/ir/type.h"

namespace tritonforge::evaluate::ir {

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

inline float round_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u;
  return std::bit_cast<float>((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC00000u : rounded);
}
inline uint16_t bf16_bits(float rounded) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) >> 16); }

inline float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const float magnitude = std::bit_cast<float>(static_cast<uint32_t>(bits & 0x7FFF) << 13) * 0x1p112f;
  uint32_t out = std::bit_cast<uint32_t>(magnitude);
  out |= (bits & 0x7C00) == 0x7C00 ? 0x7F800000u : 0;
  return std::bit_cast<float>(out | sign);
}

inline float round_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits & 0x80000000u, magnitude = bits & 0x7FFFFFFFu;
  const float absolute = std::bit_cast<float>(magnitude);
  const uint32_t normal = (magnitude + 0xFFF + ((magnitude >> 13) & 1)) & 0xFFFFE000u;
  const uint32_t tiny = std::bit_cast<uint32_t>((absolute + 0.5f) - 0.5f);  // multiples of 2^-24
  uint32_t out = magnitude < 0x38800000u ? tiny : normal;
  out = out > 0x477FE000u ? 0x7F800000u : out;
  out = magnitude > 0x7F800000u ? 0x7FC00000u : out;
  return std::bit_cast<float>(out | sign);
}
inline uint16_t half_bits(float rounded) {  // of a value that a half can hold
  const uint32_t bits = std::bit_cast<uint32_t>(rounded), magnitude = bits & 0x7FFFFFFFu;
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (magnitude >= 0x7F800000u) return sign | (magnitude > 0x7F800000u ? 0x7E00 : 0x7C00);
  if (magnitude < 0x38800000u) return sign | static_cast<uint16_t>(std::bit_cast<float>(magnitude) * 0x1p24f);
  return sign | static_cast<uint16_t>((magnitude - 0x38000000u) >> 13);
}

// Eight-bit floats: E4M3FN has no infinity (448 is the largest, 0x7F is NaN), E5M2 is a short half.
template <int kMantissa, int kBias, bool kFinite>
struct Float8 {
  static float to_float(uint8_t bits) {
    const int exponent = (bits & 0x7F) >> kMantissa, mantissa = bits & ((1 << kMantissa) - 1);
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    const int top = 0x7F >> kMantissa;
    if (kFinite ? (bits & 0x7F) == 0x7F : exponent == top && mantissa != 0)
      return std::numeric_limits<float>::quiet_NaN();
    if (!kFinite && exponent == top) return sign * std::numeric_limits<float>::infinity();
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissa);
    return sign * std::ldexp(static_cast<float>(mantissa + (1 << kMantissa)), exponent - kBias - kMantissa);
  }
  static float round(float value) {
    if (std::isnan(value)) return value;
    const float largest = kFinite ? 448.0f : 57344.0f, absolute = std::fabs(value);
    if (!kFinite && std::isinf(value)) return value;
    int exponent = 0;
    std::frexp(absolute, &exponent);  // absolute = [0.5, 1) * 2^exponent
    const int step = std::max(exponent - 1, 1 - kBias) - kMantissa;
    const float rounded = std::ldexp(std::nearbyint(std::ldexp(absolute, -step)), step);
    const float out = rounded > largest ? (kFinite ? largest : std::numeric_limits<float>::infinity()) : rounded;
    return std::copysign(out, value);
  }
  static uint8_t bits(float rounded) {
    const uint8_t sign = std::signbit(rounded) ? 0x80 : 0;
    const float absolute = std::fabs(rounded);
    if (std::isnan(rounded)) return sign | 0x7F;
    if (std::isinf(rounded)) return sign | (0x7F >> kMantissa << kMantissa);
    if (absolute == 0) return sign;
    int exponent = 0;
    std::frexp(absolute, &exponent);
    const int biased = exponent - 1 + kBias;
    if (biased < 1) return sign | static_cast<uint8_t>(std::ldexp(absolute, kBias - 1 + kMantissa));
    return sign |
           static_cast<uint8_t>((biased << kMantissa) +
                                (static_cast<int>(std::ldexp(absolute, kMantissa - exponent + 1)) - (1 << kMantissa)));
  }
};
using E4M3 = Float8<3, 7, true>;
using E5M2 = Float8<2, 15, false>;

// What a tensor core reads of a float32 operand: sign, exponent and ten bits; Triton 3.6 emits no rounding before
// mma/wgmma (checked in its PTX for sm_80 and sm_90), so the low bits are cut off.
inline float cut_to_tf32(float value) { return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & 0xFFFFE000u); }

inline float round_to(Kind kind, float value) {
  switch (kind) {
    case Kind::kF16: return round_to_half(value);
    case Kind::kBF16: return round_to_bf16(value);
    case Kind::kF8E4M3: return E4M3::round(value);
    case Kind::kF8E5M2: return E5M2::round(value);
    default: return value;
  }
}

inline void round_all(Kind kind, float* values, int64_t count) {
  switch (kind) {
    case Kind::kF16:
      for (int64_t i = 0; i < count; ++i) values[i] = round_to_half(values[i]);
      break;
    case Kind::kBF16:
      for (int64_t i = 0; i < count; ++i) values[i] = round_to_bf16(values[i]);
      break;
    case Kind::kF8E4M3:
    case Kind::kF8E5M2:
      for (int64_t i = 0; i < count; ++i) values[i] = round_to(kind, values[i]);
      break;
    default: break;
  }
}

}  // namespace tritonforge::evaluate::ir
