#include "orchestrate/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::orchestrate {
namespace {

// pass@k by definition: the share of k-subsets that hold a correct sample.
double pass_at_k_by_counting(int n, int c, int k) {
  int hits = 0, all = 0;
  for (int mask = 0; mask < 1 << n; ++mask) {
    if (__builtin_popcount(static_cast<unsigned>(mask)) != k) continue;
    ++all;
    hits += (mask & ((1 << c) - 1)) != 0;
  }
  return static_cast<double>(hits) / all;
}

TEST(PassAtK, EqualsCountingSubsets) {
  for (int n = 1; n <= 8; ++n) {
    for (int c = 0; c <= n; ++c) {
      for (int k = 1; k <= n; ++k)
        EXPECT_NEAR(pass_at_k(n, c, k), pass_at_k_by_counting(n, c, k), 1e-12) << n << " " << c << " " << k;
    }
  }
  EXPECT_THROW(pass_at_k(4, 2, 5), Error);
}

TEST(Wilson, KnownValues) {
  // 8 of 10: (0.4902, 0.9433), e.g. from statsmodels' proportion_confint(8, 10, method="wilson").
  const Interval interval = wilson95(8, 10);
  EXPECT_NEAR(interval.low, 0.4901625, 1e-6);
  EXPECT_NEAR(interval.high, 0.9433178, 1e-6);
  EXPECT_EQ(wilson95(0, 20).low, 0.0);
  EXPECT_GT(wilson95(0, 20).high, 0.1);
}

TEST(ClusterBootstrap, IsWiderWhereSamplesOfAProblemAgree) {
  // 50 problems of 4 samples, half right. Alike within a problem: 50 facts, not 200.
  std::vector<std::vector<double>> alike, mixed;
  for (int p = 0; p < 50; ++p) {
    alike.push_back(std::vector<double>(4, p % 2));
    mixed.push_back({0, 1, 0, 1});
  }
  const Interval wide = cluster_bootstrap95(alike, 1), narrow = cluster_bootstrap95(mixed, 1);
  EXPECT_NEAR(wide.high - wide.low, 2 * 1.96 * std::sqrt(0.25 / 50), 0.04);
  EXPECT_EQ(narrow.low, 0.5);
  EXPECT_EQ(narrow.high, 0.5);
  const Interval again = cluster_bootstrap95(alike, 1);
  EXPECT_EQ(wide.low, again.low);
}

TEST(ClusterBootstrap, CoversTheTruth) {
  Rng rng(7);
  int covered = 0;
  constexpr int kRuns = 100;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<std::vector<double>> values;
    for (int p = 0; p < 60; ++p) {
      const double rate = rng.uniform();  // problems differ; the truth is 0.5
      auto& samples = values.emplace_back();
      for (int s = 0; s < 4; ++s) samples.push_back(rng.uniform() < rate);
    }
    const Interval interval = cluster_bootstrap95(values, static_cast<uint64_t>(run));
    covered += interval.low <= 0.5 && 0.5 <= interval.high;
  }
  EXPECT_GE(covered, 88);  // 95 expected; 88 is three standard deviations below
}

TEST(ClusterBootstrap, AllOrNoneStillHasAWidth) {
  const Interval none = cluster_bootstrap95({{0, 0}, {0, 0}, {0, 0}}, 1);
  EXPECT_EQ(none.low, 0.0);
  EXPECT_GT(none.high, 0.2);
}

TEST(FastP, CountsCorrectAndFaster) {
  EXPECT_DOUBLE_EQ(fast_p({0.5, 1.5, 2.5}, 10, 1.0), 0.2);
  EXPECT_DOUBLE_EQ(fast_p({1.0, 2.0}, 2, 1.0), 0.5);  // as fast is not faster
  EXPECT_DOUBLE_EQ(fast_p({}, 0, 1.0), 0.0);
  EXPECT_NEAR(geometric_mean({0.5, 2.0}), 1.0, 1e-12);
}

}  // namespace
}  // namespace tritonforge::orchestrate
