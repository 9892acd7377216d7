#include "evaluate/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace tritonforge::evaluate {
namespace {

template <typename T>
TensorView view(const std::vector<T>& values, std::vector<int64_t> shape, Dtype dtype,
                std::vector<int64_t> order = {}) {
  if (order.empty()) {
    for (size_t i = 0; i < shape.size(); ++i) order.push_back(static_cast<int64_t>(i));
  }
  return {dtype, std::move(shape), std::move(order), std::as_bytes(std::span(values))};
}
Comparison floats(const std::vector<float>& candidate, const std::vector<float>& reference) {
  const auto n = static_cast<int64_t>(reference.size());
  return compare(view(candidate, {n}, Dtype::kFloat32), view(reference, {n}, Dtype::kFloat32), {}, "output 0");
}
std::vector<float> wave(size_t n, float scale) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = scale * std::sin(static_cast<float>(i));
  return values;
}

TEST(Compare, WithinToleranceAndNot) {
  auto reference = wave(64, 1), candidate = reference;
  candidate[5] += 5e-5f;
  EXPECT_TRUE(floats(candidate, reference).passed);
  candidate[5] += 1e-3f;
  const auto wrong = floats(candidate, reference);
  EXPECT_FALSE(wrong.passed);
  EXPECT_NE(wrong.mismatch.find("output 0 at [5]"), std::string::npos) << wrong.mismatch;
  EXPECT_NE(wrong.mismatch.find("(1 of 64 wrong)"), std::string::npos) << wrong.mismatch;
}

TEST(Compare, ZerosDoNotPassForTinyOutputs) {
  const auto reference = wave(64, 1e-6f);
  EXPECT_FALSE(floats(std::vector<float>(64, 0.0f), reference).passed);
  EXPECT_TRUE(floats(reference, reference).passed);
}

TEST(Compare, TheMeanDoesNotPassForNearlyConstantOutputs) {
  auto reference = wave(64, 5e-5f);
  for (auto& value : reference) value += 0.01f;
  EXPECT_FALSE(floats(std::vector<float>(64, 0.01f), reference).passed);
}

TEST(Compare, LargeOutputsMayBeAsWrongNearZeroAsElsewhere) {
  const auto reference = wave(64, 1e6f);
  auto candidate = reference;
  candidate[0] += 30;  // of sin(0) = 0, in sums whose other results are about 1e6
  EXPECT_TRUE(floats(candidate, reference).passed);
  candidate[0] += 300;
  EXPECT_FALSE(floats(candidate, reference).passed);
}

TEST(Compare, AnOutlierMakesNoRoom) {
  auto reference = wave(64, 1);
  for (size_t i = 0; i < reference.size(); i += 2) reference[i] = -1e9f;
  auto candidate = reference;
  candidate[5] = 0;
  EXPECT_FALSE(floats(candidate, reference).passed);
}

TEST(Compare, NanAndInfinityMustMatch) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(floats({1, nan, inf}, {1, nan, inf}).passed);
  EXPECT_FALSE(floats({1, 2, inf}, {1, nan, inf}).passed);
  EXPECT_FALSE(floats({1, nan, -inf}, {1, nan, inf}).passed);
  EXPECT_FALSE(floats({nan, nan, nan}, {1, 2, 3}).passed);
}

TEST(Compare, IntegersAreExactBeyondDoubles) {
  const std::vector<int64_t> a{(int64_t{1} << 60) + 1}, b{int64_t{1} << 60};
  EXPECT_FALSE(compare(view(a, {1}, Dtype::kInt64), view(b, {1}, Dtype::kInt64), {}, "x").passed);
  EXPECT_TRUE(compare(view(b, {1}, Dtype::kInt64), view(b, {1}, Dtype::kInt64), {}, "x").passed);
}

TEST(Compare, HalfPrecisionTypes) {
  const std::vector<uint16_t> one_half{0x3C00, 0x0001, 0x7C00}, one_bfloat{0x3F80, 0x3F81};
  EXPECT_TRUE(compare(view(one_half, {3}, Dtype::kFloat16), view(one_half, {3}, Dtype::kFloat16), {}, "x").passed);
  const std::vector<uint16_t> far{0x3F80, 0x4000};
  EXPECT_FALSE(compare(view(far, {2}, Dtype::kBFloat16), view(one_bfloat, {2}, Dtype::kBFloat16), {}, "x").passed);
}

TEST(Compare, HalvesAreReadExactly) {
  const std::vector<uint16_t> zero{0}, smallest{0x0001}, largest{0x7BFF}, negative{0xC248};
  const auto expected = [&](const std::vector<uint16_t>& bits) {
    Tolerances exact;
    exact.half = {0, 0};
    return compare(view(zero, {1}, Dtype::kFloat16), view(bits, {1}, Dtype::kFloat16), exact, "x").mismatch;
  };
  EXPECT_NE(expected(smallest).find("0, expected 5.96046e-08"), std::string::npos) << expected(smallest);
  EXPECT_NE(expected(largest).find("0, expected 65504"), std::string::npos) << expected(largest);
  EXPECT_NE(expected(negative).find("0, expected -3.14062"), std::string::npos) << expected(negative);
}

TEST(Compare, IdenticalIsToTheByte) {
  const std::vector<float> zero{0.0f, 1.0f}, negative_zero{-0.0f, 1.0f};
  EXPECT_TRUE(identical(view(zero, {2}, Dtype::kFloat32), view(zero, {2}, Dtype::kFloat32)));
  EXPECT_FALSE(identical(view(zero, {2}, Dtype::kFloat32), view(negative_zero, {2}, Dtype::kFloat32)));
}

TEST(Compare, ShapeAndDtypeAreNamed) {
  const std::vector<float> values(6);
  EXPECT_NE(compare(view(values, {2, 3}, Dtype::kFloat32), view(values, {3, 2}, Dtype::kFloat32), {}, "x")
                .mismatch.find("[2, 3], expected [3, 2]"),
            std::string::npos);
  const std::vector<int32_t> integers(6);
  EXPECT_NE(compare(view(integers, {6}, Dtype::kInt32), view(values, {6}, Dtype::kFloat32), {}, "x")
                .mismatch.find("int32, expected float32"),
            std::string::npos);
}

TEST(Compare, MemoryOrderDoesNotMatter) {
  const std::vector<float> rows{1, 2, 3, 4, 5, 6}, columns{1, 4, 2, 5, 3, 6};
  const auto a = view(rows, {2, 3}, Dtype::kFloat32), b = view(columns, {2, 3}, Dtype::kFloat32, {1, 0});
  EXPECT_TRUE(compare(a, b, {}, "x").passed);
  EXPECT_TRUE(identical(a, b));
}

TEST(ParseTensors, RefusesWhatDoesNotFitThePayload) {
  const std::vector<std::byte> payload(16);
  const auto parse = [&](const char* text) { return parse_tensors(Json::parse(text), payload); };
  EXPECT_EQ(parse(R"([{"dtype":"float32","shape":[2,2],"order":[0,1],"bytes":16}])").size(), 1u);
  for (const char* bad : {R"([{"dtype":"float32","shape":[2,3],"order":[0,1],"bytes":24}])",
                          R"([{"dtype":"float32","shape":[2,2],"order":[0,0],"bytes":16}])",
                          R"([{"dtype":"float32","shape":[-2,-2],"order":[0,1],"bytes":16}])",
                          R"([{"dtype":"float99","shape":[4],"order":[0],"bytes":16}])",
                          R"([{"dtype":"float32","shape":[1099511627776,1099511627776],"order":[0,1],"bytes":16}])",
                          R"([{"dtype":"float32","shape":"x","order":[0],"bytes":16}])", R"([])", R"({})", R"([1])",
                          R"([{"dtype":"float32","shape":[2],"order":[0],"bytes":8}])"}) {
    EXPECT_THROW(parse(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace tritonforge::evaluate
