#include "evaluate/timing.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tritonforge::evaluate {
namespace {

TEST(Timing, Summary) {
  const Timing timing = summarise({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(timing.mean, 2.5);
  EXPECT_DOUBLE_EQ(timing.median, 2.5);
  EXPECT_DOUBLE_EQ(timing.min, 1);
  EXPECT_DOUBLE_EQ(timing.max, 4);
  EXPECT_EQ(timing.samples, 4);
  EXPECT_EQ(summarise({}).samples, 0);
}

std::vector<double> samples(double scale, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> out(60);
  for (auto& value : out) value = scale * (1 + 0.05 * rng.uniform());
  return out;
}

TEST(Bootstrap, TheIntervalHoldsTheTrueRatio) {
  const auto interval = bootstrap_ratio(samples(2, 1), samples(1, 2), 3);
  EXPECT_LT(interval.low, 2.0);
  EXPECT_GT(interval.high, 2.0);
  EXPECT_LT(interval.high - interval.low, 0.1);
}

TEST(Bootstrap, TheSameAgainstItselfIsNotFaster) {
  const auto interval = bootstrap_ratio(samples(1, 4), samples(1, 5), 6);
  EXPECT_LE(interval.low, 1.0 + 0.01);
  EXPECT_EQ(bootstrap_ratio({}, {1.0}, 1).low, 0);
}

}  // namespace
}  // namespace tritonforge::evaluate
