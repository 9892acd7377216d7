#include "kernels/fp8.h"

#include <c10/util/Float8_e4m3fn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "kernels/paged_attention.h"

namespace tritonforge {
namespace {

// c10's conversion is another author's.
TEST(Fp8, EveryFloatUpTo448BecomesTheNearestE4m3) {
  const auto check = [](uint32_t bits) {
    const float x = fp8::float_of(bits);
    if (!(std::abs(x) <= 448)) return;
    EXPECT_EQ(fp8::encode(x), c10::Float8_e4m3fn(x).x) << x;
  };
  for (uint32_t half = 0; half < 1U << 16; ++half) check(half << 16);  // every bfloat16
  Rng rng(1);
  for (int i = 0; i < 1'000'000; ++i) {
    // Of all exponents that matter: 2^-12 to 2^9.
    const auto exponent = static_cast<uint32_t>(115 + rng.below(22));
    check(static_cast<uint32_t>(rng.below(2)) << 31 | exponent << 23 | static_cast<uint32_t>(rng.below(1U << 23)));
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {  // ties: half way between two neighbours
    if ((byte & 0x7F) >= 0x7E) continue;
    check(fp8::bits_of((fp8::decode(byte) + fp8::decode(byte + 1)) / 2));
  }
}

TEST(Fp8, EveryByteIsReadAsE4m3) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if ((byte & 0x7F) == 0x7F) continue;  // NaN there, and never part of a row that is finite
    const c10::Float8_e4m3fn expected(static_cast<uint8_t>(byte), c10::Float8_e4m3fn::from_bits());
    EXPECT_EQ(fp8::bits_of(fp8::decode(byte)), fp8::bits_of(static_cast<float>(expected))) << byte;
    EXPECT_EQ(fp8::encode(fp8::decode(byte)), byte);
  }
}

TEST(Fp8, AScaleIsTheSmallestPowerOfTwoThatHoldsTheRow) {
  for (const float largest : {1e-30f, 0.001f, 1.0f, 1.75f, 1.7500001f, 1.99f, 2.0f, 447.9f, 448.0f, 448.1f, 60000.0f,
                              std::numeric_limits<float>::max()}) {
    const uint32_t scale = fp8::scale_of(fp8::bits_of(largest));
    EXPECT_LE(largest * fp8::inverse_of(scale), 448) << largest;
    EXPECT_GT(largest * fp8::inverse_of(scale - 1), 448) << largest;
    EXPECT_EQ(fp8::factor_of(scale) * fp8::inverse_of(scale), 1);
  }
  EXPECT_EQ(fp8::factor_of(fp8::scale_of(fp8::bits_of(448.0f))), 1);
  EXPECT_GT(fp8::factor_of(fp8::scale_of(0)), 0);  // of a row of zeros
}

// Each number is off by at most half a step of three bits, or of the row's smallest ones.
TEST(Fp8, ARoundedRowIsNear) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({200, 128}) * at::pow(10, at::randn({200, 1}) * 3);
  const at::Tensor off = (kernels::fp8_rounded(x) - x).abs(), largest = x.abs().amax(1, true);
  EXPECT_TRUE((off <= at::maximum(x.abs() / 16, largest / 224 / 1024)).all().item<bool>());
  EXPECT_GT((off / x.abs()).mean().item<float>(), 0.01);  // it is rounded
  EXPECT_TRUE(at::equal(kernels::fp8_rounded(kernels::fp8_rounded(x)), kernels::fp8_rounded(x)));
  EXPECT_TRUE(at::equal(kernels::fp8_rounded(at::zeros({2, 64})), at::zeros({2, 64})));
}

TEST(Fp8, WhatIsNotFiniteStaysSo) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    at::Tensor x = at::ones({2, 64});
    x[0][5] = bad;
    const at::Tensor rounded = kernels::fp8_rounded(x);
    EXPECT_TRUE(rounded[0].isnan().all().item<bool>());
    EXPECT_TRUE(at::equal(rounded[1], x[1]));
  }
}

}  // namespace
}  // namespace tritonforge
