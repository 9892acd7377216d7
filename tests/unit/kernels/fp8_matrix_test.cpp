#include "kernels/fp8_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/fp8.h"

namespace tritonforge::kernels {
namespace {

// Rows of all sizes, one of zeros, one whose largest number is a scale's limit, and one just beyond.
at::Tensor rows_of(int64_t in, at::ScalarType dtype) {
  at::Tensor w = at::randn({40, in});
  for (int64_t row = 0; row < 40; ++row) w[row].mul_(std::exp2(3.0 * static_cast<double>(row) - 60));
  w[7].zero_();
  w[8].copy_(at::linspace(-448, 448, in));
  w[9].copy_(at::linspace(-449, 449, in));
  return w.to(dtype);
}

TEST(Fp8Matrix, ItsRowsAreThoseOfTheScalarFormat) {
  at::manual_seed(1);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor w = rows_of(96, dtype), wide = w.to(at::kFloat);
    const Fp8Matrix matrix = to_fp8(w);
    const at::Tensor bytes = matrix.values.view(at::kByte);
    for (int64_t row = 0; row < w.size(0); ++row) {
      const uint32_t scale = fp8::scale_of(fp8::bits_of(wide[row].abs().max().item<float>()));
      EXPECT_EQ(matrix.scales[row].item<float>(), fp8::factor_of(scale)) << row;
      for (int64_t i = 0; i < w.size(1); ++i)
        ASSERT_EQ(bytes[row][i].item<uint8_t>(), fp8::encode(wide[row][i].item<float>() * fp8::inverse_of(scale)))
            << row << ", " << i;
    }
    // Both forms of what it stands for are exact, and rounding that changes nothing.
    EXPECT_TRUE(at::equal(widened(matrix, at::kBFloat16).to(at::kFloat), widened(matrix, at::kFloat)));
    EXPECT_TRUE(at::equal(widened(to_fp8(widened(matrix, dtype)), at::kFloat), widened(matrix, at::kFloat)));
    const at::Tensor off = (widened(matrix, at::kFloat) - wide).abs(), largest = wide.abs().amax(1, true);
    EXPECT_LE((off / at::maximum(wide.abs(), largest * 0x1.0p-14)).nan_to_num(0).max().item<float>(), 0x1.0p-4);
  }
}

TEST(Fp8Matrix, ARowThatIsNotFiniteIsReadAsNan) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor w = at::randn({3, 64});
    w[1][5] = bad;
    const at::Tensor wide = widened(to_fp8(w), at::kFloat);
    EXPECT_TRUE(wide[1].isnan().all().item<bool>());
    EXPECT_TRUE(wide[0].isfinite().all().item<bool>() && wide[2].isfinite().all().item<bool>());
  }
}

TEST(Fp8Matrix, LaneOrderIsThePlaceThatItsCommentNames) {
  at::manual_seed(2);
  const at::Tensor values = to_fp8(at::randn({5, 192})).values;
  const at::Tensor plain = values.view(at::kByte), lanes = to_lane_order(values).view(at::kByte);
  for (int64_t k = 0; k < 192; ++k) {
    const int64_t in = k % 64, s = in / 16, h = in / 8 % 2, t = in / 2 % 4, i = in % 2;
    EXPECT_TRUE(at::equal(lanes.select(1, k / 64 * 64 + 16 * t + 4 * s + 2 * i + h), plain.select(1, k))) << k;
  }
  EXPECT_TRUE(at::equal(from_lane_order(to_lane_order(values)).view(at::kByte), plain));
  // On the CPU a kept matrix lies plainly.
  const at::Tensor kept = at::empty_like(values);
  keep(kept, values);
  EXPECT_TRUE(at::equal(kept.view(at::kByte), plain));
}

}  // namespace
}  // namespace tritonforge::kernels
