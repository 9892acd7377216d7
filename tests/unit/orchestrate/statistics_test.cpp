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
  EXPECT_LT(narrow.high - narrow.low, wide.high - wide.low);
  EXPECT_EQ(narrow, wilson95(100, 200));  // as many of every problem: that is no certainty
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

TurnOutcome right(double eager = 0, double torch_compile = 0) { return {true, true, eager, torch_compile}; }
constexpr TurnOutcome kWrong{.compiled = true}, kBroken{};

Figures single_turn(const std::vector<std::vector<TurnOutcome>>& problems, Timed timed = {true, true},
                    const std::vector<int64_t>& ks = {1}) {
  std::vector<ProblemOutcomes> outcomes;
  for (const auto& problem : problems) {
    auto& samples = outcomes.emplace_back();
    for (const TurnOutcome& turn : problem) samples.push_back({.turns = {turn}});
  }
  return figures_of(outcomes, 1, Answer::kBest, ks, timed, 1);
}

TEST(Figures, RatesAreOverJudgedSamples) {
  const Figures figures = single_turn({{right(2), right(0.5), kWrong, kBroken}, {kBroken, kBroken, right(1), kWrong}},
                                      {true, false}, {1, 2, 5});
  EXPECT_EQ(figures.problems, 2);
  EXPECT_EQ(figures.samples, 8);
  EXPECT_DOUBLE_EQ(figures.compiled.value, 5.0 / 8);
  EXPECT_DOUBLE_EQ(figures.correct.value, 3.0 / 8);
  // 2 of 4 and 1 of 4 correct. pass@2: 1 - C(2,2)/C(4,2) = 5/6 and 1 - C(3,2)/C(4,2) = 1/2.
  EXPECT_DOUBLE_EQ(figures.pass_at.at(1).estimate.value, 3.0 / 8);
  EXPECT_NEAR(figures.pass_at.at(2).estimate.value, (5.0 / 6 + 0.5) / 2, 1e-12);
  EXPECT_EQ(figures.pass_at.at(2).problems, 2);
  EXPECT_FALSE(figures.pass_at.contains(5));  // four samples say nothing of pass@5
  for (const Estimate& share : {figures.compiled, figures.correct}) {
    EXPECT_LT(share.interval->low, share.value);
    EXPECT_GT(share.interval->high, share.value);
  }
}

TEST(Figures, FastPCountsCorrectAndFasterOfAllJudged) {
  const TurnOutcome fast_and_wrong{.compiled = true, .correct = false, .eager = 9};
  const Figures figures = single_turn({{right(0.5, 0.4), right(1, 0.8), right(1.6, 1.3), right(2.5, 2), right(0)},
                                       {fast_and_wrong, kBroken, kBroken, kBroken, kBroken}});
  const std::map<double, double> eager = {{0, 0.4}, {0.5, 0.3}, {0.8, 0.3}, {1, 0.2}, {1.5, 0.2}, {2, 0.1}};
  const std::map<double, double> torch_compile = {{0, 0.4}, {0.5, 0.3}, {0.8, 0.2}, {1, 0.2}, {1.5, 0.1}, {2, 0}};
  for (const double p : kFastThresholds) {
    EXPECT_DOUBLE_EQ(figures.eager->fast.at(p).value, eager.at(p)) << p;  // as fast is not faster
    EXPECT_DOUBLE_EQ(figures.torch_compile->fast.at(p).value, torch_compile.at(p)) << p;
  }
  EXPECT_EQ(figures.eager->timed, 4);
  EXPECT_NEAR(figures.eager->geometric_mean->value, std::pow(0.5 * 1 * 1.6 * 2.5, 0.25), 1e-12);
  EXPECT_DOUBLE_EQ(figures.eager->median->value, 1.3);                // of 0.5, 1, 1.6, 2.5
  EXPECT_FALSE(figures.eager->geometric_mean->interval.has_value());  // of one problem
}

TEST(Figures, SpeedupsHaveAnIntervalOverProblems) {
  std::vector<std::vector<TurnOutcome>> problems;
  for (int p = 0; p < 40; ++p) problems.push_back({right(p % 2 == 0 ? 0.5 : 2), right(p % 2 == 0 ? 0.5 : 2)});
  const SpeedFigures speed = *single_turn(problems).eager;
  EXPECT_NEAR(speed.geometric_mean->value, 1, 1e-12);
  // The mean logarithm has the standard error ln 2 / sqrt(40 - 1).
  const double half = 1.96 * std::log(2) / std::sqrt(39);
  EXPECT_NEAR(std::log(speed.geometric_mean->interval->low), -half, 0.04);
  EXPECT_NEAR(std::log(speed.geometric_mean->interval->high), half, 0.04);
  EXPECT_EQ(speed.median->value, 1.25);
  EXPECT_EQ(*speed.median->interval, (Interval{0.5, 2}));
  const SpeedFigures equal = *single_turn({{right(2)}, {right(2)}}).eager;
  EXPECT_FALSE(equal.geometric_mean->interval || equal.median->interval);  // two equal ones are no certainty
}

TEST(Figures, WhatWasNotTimedIsNoZero) {
  const Figures none = single_turn({{right(), right()}}, {false, false});
  EXPECT_FALSE(none.eager.has_value());
  EXPECT_FALSE(none.torch_compile.has_value());
  const Figures nothing_correct = single_turn({{kWrong}, {kBroken}}, {true, false});
  EXPECT_EQ(nothing_correct.eager->fast.at(0).value, 0);
  EXPECT_FALSE(nothing_correct.eager->geometric_mean.has_value());
}

TEST(Figures, BestAndFinalTurnsAreToldApart) {
  const SampleOutcome sample{.turns = {kBroken, kWrong, right(1.5), right(3), right(2), kBroken}};
  EXPECT_EQ(answer_turn(sample, 1, Answer::kBest), 0);
  EXPECT_EQ(answer_turn(sample, 2, Answer::kBest), 1);
  EXPECT_EQ(answer_turn(sample, 3, Answer::kBest), 2);
  EXPECT_EQ(answer_turn(sample, 6, Answer::kBest), 3);
  EXPECT_EQ(answer_turn(sample, 6, Answer::kFinal), 5);
  EXPECT_EQ(answer_turn(sample, 5, Answer::kFinal), 4);
  EXPECT_EQ(answer_turn({.turns = {right(), right()}}, 9, Answer::kBest), 0);  // untimed: the first
  EXPECT_EQ(answer_turn({.turns = {right(3, 1), right(2, 2), right(0, 1.5)}}, 9, Answer::kBest), 1);  // faster of both
  const std::vector<ProblemOutcomes> problems = {{sample}};
  EXPECT_EQ(figures_of(problems, 6, Answer::kBest, {1}, {}, 1).correct.value, 1);
  EXPECT_EQ(figures_of(problems, 6, Answer::kFinal, {1}, {}, 1).correct.value, 0);
}

TEST(Figures, WhatAFailureOfOursEndedIsKnownOnlyUpToThere) {
  const SampleOutcome failed_in_third{.turns = {kWrong, right()}, .failed = true};
  EXPECT_EQ(answer_turn(failed_in_third, 2, Answer::kBest), 1);
  EXPECT_EQ(answer_turn(failed_in_third, 3, Answer::kBest), std::nullopt);
  const Figures figures = figures_of({{failed_in_third, {.turns = {right()}}}}, 3, Answer::kBest, {1}, {}, 1);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.samples, 1);
  EXPECT_EQ(figures.correct.value, 1);
}

TEST(UsualKs, AreDecadesAndTheNumberItself) {
  EXPECT_EQ(usual_ks(1), (std::vector<int64_t>{1}));
  EXPECT_EQ(usual_ks(4), (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(usual_ks(100), (std::vector<int64_t>{1, 2, 5, 10, 20, 50, 100}));
}

}  // namespace
}  // namespace tritonforge::orchestrate
