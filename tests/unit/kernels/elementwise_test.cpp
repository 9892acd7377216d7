#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge::kernels {
namespace {

// One unit in the last place of the dtype, relative; fp32 also allows for another order of summation.
double tolerance(at::ScalarType dtype) { return dtype == at::kFloat ? 3e-6 : dtype == at::kBFloat16 ? 8e-3 : 1e-3; }

void expect_near(const at::Tensor& found, const at::Tensor& expected) {
  ASSERT_EQ(found.scalar_type(), expected.scalar_type());
  ASSERT_EQ(found.sizes(), expected.sizes());
  ASSERT_TRUE(found.is_contiguous());
  const double bound = tolerance(expected.scalar_type());
  EXPECT_TRUE(at::allclose(found.to(at::kFloat), expected.to(at::kFloat), bound, bound));
}

class Elementwise : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::Tensor random(std::initializer_list<int64_t> sizes) { return at::randn(sizes).to(GetParam()); }
};

TEST_P(Elementwise, RmsNormIsTheAtenForm) {
  for (const int64_t width : {1, 7, 8, 24, 896}) {
    const at::Tensor fused = random({5, 3 * width + 4}), weight = random({width});
    for (const at::Tensor& x : {random({5, width}), random({400, width}), fused.narrow(1, 2, 3 * width).view({5, 3, width})}) {
      const at::Tensor wide = x.to(at::kFloat);
      expect_near(rms_norm_cpu(x, weight, 1e-6), weight * (wide * at::rsqrt(wide.pow(2).mean(-1, true) + 1e-6)).to(GetParam()));
    }
  }
}

TEST_P(Elementwise, RopeIsTheAtenForm) {
  for (const int64_t tokens : {1, 9, 700}) {
    const at::Tensor angle = at::randn({tokens, 4}) * 3, fused = random({tokens, 40});
    for (const at::Tensor& x : {random({tokens, 3, 8}), fused.narrow(1, 8, 24).view({tokens, 3, 8})}) {
      const auto halves = x.to(at::kFloat).chunk(2, -1);
      const at::Tensor c = angle.cos().unsqueeze(1), s = angle.sin().unsqueeze(1);
      const at::Tensor expected = at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).to(GetParam());
      expect_near(rope_cpu(x, angle.cos(), angle.sin()), expected);
    }
  }
}

TEST_P(Elementwise, ARowDoesNotDependOnTheOthers) {
  const at::Tensor x = random({700, 96}), weight = random({96});
  EXPECT_TRUE(at::equal(rms_norm_cpu(x, weight, 1e-6).narrow(0, 650, 1), rms_norm_cpu(x.narrow(0, 650, 1), weight, 1e-6)));
}

TEST_P(Elementwise, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(rms_norm_cpu(random({2, 8}), random({7}), 1e-6), Error);
  EXPECT_THROW(rms_norm_cpu(random({8, 2}).t(), random({8}), 1e-6), Error);
  EXPECT_THROW(rope_cpu(random({2, 1, 8}), at::ones({2, 3}), at::ones({2, 3})), Error);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Elementwise, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace tritonforge::kernels
