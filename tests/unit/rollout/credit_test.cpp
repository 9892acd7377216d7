#include "rollout/credit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tritonforge::rollout {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<TurnReturn> counted(const std::vector<double>& values) {
  std::vector<TurnReturn> out;
  for (double v : values) out.push_back({v, true});
  return out;
}

auto near(double v) { return DoubleNear(v, 1e-5); }

TEST(CreditTest, TrajectoryIsTheSeedsDiscountedSumForEveryTurn) {
  const auto r = turn_returns({{0.3}, {-0.1}, {0.8}}, Credit::kTrajectory, 0.4);
  EXPECT_THAT(r, ElementsAre(near(0.388), near(0.388), near(0.388)));  // 0.3 - 0.04 + 0.16 * 0.8
}

TEST(CreditTest, PerTurnIsRewardToGo) {
  const auto r = turn_returns({{0.3}, {-0.1}, {0.8}}, Credit::kPerTurn, 0.4);
  EXPECT_THAT(r, ElementsAre(near(0.388), near(0.22), near(0.8)));
}

TEST(CreditTest, BestTurnIsTheBestFromHereOn) {
  const auto r = turn_returns({{0.3}, {0.9}, {-0.1}}, Credit::kBestTurn, 0.4);
  EXPECT_THAT(r, ElementsAre(near(0.9), near(0.9), near(-0.1)));
  EXPECT_THAT(turn_returns({{-0.5}, {-0.3}}, Credit::kBestTurn, 1), ElementsAre(near(-0.3), near(-0.3)));
}

TEST(CreditTest, FailedTurnsAreNotCountedButTimePasses) {
  const std::vector<TurnReward> turns = {{0.3}, {5.0, false}, {0.8}};
  EXPECT_THAT(turn_returns(turns, Credit::kTrajectory, 0.5), ElementsAre(near(0.5), near(0), near(0.5)));
  EXPECT_THAT(turn_returns(turns, Credit::kPerTurn, 0.5), ElementsAre(near(0.5), near(0), near(0.8)));
  EXPECT_THAT(turn_returns(turns, Credit::kBestTurn, 0.5), ElementsAre(near(0.8), near(0), near(0.8)));
}

TEST(AdvantageTest, GrpoUsesThePopulationDeviation) {
  // mean 0.5, population std 0.5
  const auto g = group_advantages({counted({1}), counted({0}), counted({1}), counted({0})}, Credit::kTrajectory,
                                  Advantage::kGrpo);
  EXPECT_EQ(g.reason, "");
  EXPECT_THAT(g.advantages[0], ElementsAre(near(1 / (1 + 2e-6))));
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-1 / (1 + 2e-6))));
}

TEST(AdvantageTest, DrGrpoOnlyCentres) {
  const auto g = group_advantages({counted({2.3}), counted({0.2}), counted({0.2})}, Credit::kTrajectory,
                                  Advantage::kGrpoNoStd);
  EXPECT_THAT(g.advantages[0], ElementsAre(near(1.4)));  // rewards above 1 are kept
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-0.7)));
}

TEST(AdvantageTest, RlooLeavesItselfOut) {
  const auto g = group_advantages({counted({1}), counted({0.5}), counted({0})}, Credit::kTrajectory, Advantage::kRloo);
  EXPECT_THAT(g.advantages[0], ElementsAre(near(0.75)));
  EXPECT_THAT(g.advantages[1], ElementsAre(near(0)));
  EXPECT_THAT(g.advantages[2], ElementsAre(near(-0.75)));
}

TEST(AdvantageTest, TrajectoryCreditWeighsTrajectoriesNotTurns) {
  const auto g = group_advantages({counted({1, 1, 1}), counted({0})}, Credit::kTrajectory, Advantage::kGrpoNoStd);
  EXPECT_THAT(g.advantages[0], ElementsAre(near(0.5), near(0.5), near(0.5)));
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-0.5)));
}

TEST(AdvantageTest, PerTurnComparesTurnsOfOneIndex) {
  const auto g = group_advantages({counted({1, 0.5}), counted({0, 0.1}), counted({0.5})}, Credit::kPerTurn,
                                  Advantage::kRloo);
  EXPECT_THAT(g.advantages[0], ElementsAre(near(0.75), near(0.4)));
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-0.75), near(-0.4)));
  EXPECT_THAT(g.advantages[2], ElementsAre(near(0)));
}

TEST(AdvantageTest, ALoneTurnIsComparedWithTheWholeGroup) {
  const auto g = group_advantages({counted({1}), counted({0, 0.8})}, Credit::kPerTurn, Advantage::kGrpoNoStd);
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-0.5), near(0.2)));  // 0.8 - (1 + 0 + 0.8) / 3
}

TEST(AdvantageTest, ZeroVarianceGivesZerosAndSaysSo) {
  for (auto advantage : {Advantage::kGrpo, Advantage::kGrpoNoStd, Advantage::kRloo}) {
    const auto g = group_advantages({counted({0.1 + 0.2}), counted({0.3})}, Credit::kTrajectory, advantage);
    EXPECT_EQ(g.reason, "zero_variance");
    EXPECT_THAT(g.advantages[0], ElementsAre(0.0));
    EXPECT_THAT(g.advantages[1], ElementsAre(0.0));
  }
  EXPECT_EQ(group_advantages({counted({1})}, Credit::kTrajectory, Advantage::kRloo).reason, "zero_variance");
}

TEST(AdvantageTest, FailedTurnsTakeNoPart) {
  const auto g = group_advantages({{{1, true}, {0, false}}, {{0, true}}, {{-7, false}}}, Credit::kTrajectory,
                                  Advantage::kGrpoNoStd);
  EXPECT_THAT(g.advantages[0], ElementsAre(near(0.5), near(0)));
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-0.5)));
  EXPECT_THAT(g.advantages[2], ElementsAre(near(0)));
  EXPECT_EQ(group_advantages({{{1, false}}, {}}, Credit::kTrajectory, Advantage::kGrpo).reason, "all_failed");
}

TEST(AdvantageTest, UnknownNamesNameTheNearest) {
  try {
    from_name<Credit>("perturn", "credit rule");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("per_turn"));
  }
  EXPECT_THROW(from_name<Advantage>("gprox", "advantage"), Error);
}

}  // namespace
}  // namespace tritonforge::rollout
