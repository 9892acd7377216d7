#pragma once
// Rows of numbers in FP8 as the KV cache holds them, bit for bit the same on the host and on the device.
//
// A row (a head's key or value of one token) is e4m3 (OCP 8-bit floating point: 4 bits of exponent, 3 of mantissa, at
// most 448) times a power of two of its own, the smallest with which its largest number is not beyond 448. So
//  - what a row becomes depends on that row alone: not on the batch, not on other tokens, not on which weights made it;
//  - element times scale is exact in bfloat16, and the scale may be multiplied in anywhere: attention over such rows
//    has the bits of attention over the same numbers in bfloat16 or float32.
// The scale is one byte (OCP's E8M0): 2^(scale - 127). A row with a number that is not finite becomes zeros of the
// scale 255, which is read as infinity: attention to it is NaN.
#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace tritonforge {

namespace fp8 {

TF_HOST_DEVICE inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
TF_HOST_DEVICE inline float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// The scale of a row, from its largest magnitude as the bits of a float: compared as integers, so that what is not
// finite is the largest.
TF_HOST_DEVICE inline uint32_t scale_of(uint32_t largest) {
  const uint32_t exponent = largest >> 23, above = (largest & 0x7FFFFF) > 0x600000 ? 1 : 0;  // 448 = 1.75 * 2^8
  if (exponent == 255) return 255;
  return exponent + above > 9 ? exponent + above - 8 : 1;
}
TF_HOST_DEVICE inline float factor_of(uint32_t scale) { return float_of(scale << 23); }
TF_HOST_DEVICE inline float inverse_of(uint32_t scale) { return scale == 255 ? 0.0f : float_of((254 - scale) << 23); }

// The nearest e4m3, ties to even, of |y| <= 448; 0 of NaN.
TF_HOST_DEVICE inline uint32_t encode(float y) {
  const uint32_t bits = bits_of(y), sign = bits >> 24 & 0x80, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x43E00000) return 0;
  // Below 2^-6 steps of 2^-9: the last bit of 2^14.
  if (magnitude < 0x3C800000) return sign | (bits_of(float_of(magnitude) + 16384.0f) & 0xF);
  return sign | (((magnitude + 0x7FFFF + (magnitude >> 20 & 1)) >> 20) - (120 << 3));
}
TF_HOST_DEVICE inline float decode(uint32_t byte) {
  return float_of((byte & 0x80) << 24 | bits_of(float_of((byte & 0x7F) << 20) * 0x1p120f));
}

}  // namespace fp8

}  // namespace tritonforge
