#include "rollout/credit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge::rollout {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrajectoryReturns counted(std::vector<double> values) { return {std::move(values), true}; }

auto near(double v) { return DoubleNear(v, 1e-5); }

TEST(CreditTest, TrajectoryIsTheSeedsDiscountedSumForEveryTurn) {
  const auto r = turn_returns({0.3, -0.1, 0.8}, Credit::kTrajectory, 0.4);
  EXPECT_THAT(r, ElementsAre(near(0.388), near(0.388), near(0.388)));  // 0.3 - 0.04 + 0.16 * 0.8
}

TEST(CreditTest, PerTurnIsRewardToGo) {
  const auto r = turn_returns({0.3, -0.1, 0.8}, Credit::kPerTurn, 0.4);
  EXPECT_THAT(r, ElementsAre(near(0.388), near(0.22), near(0.8)));
}

TEST(CreditTest, BestTurnIsTheBestFromHereOn) {
  const auto r = turn_returns({0.3, 0.9, -0.1}, Credit::kBestTurn, 0.4);
  EXPECT_THAT(r, ElementsAre(near(0.9), near(0.9), near(-0.1)));
  EXPECT_THAT(turn_returns({-0.5, -0.3}, Credit::kBestTurn, 1), ElementsAre(near(-0.3), near(-0.3)));
}

TEST(CreditTest, NothingIsMadeOfNothing) {
  for (Credit credit : {Credit::kTrajectory, Credit::kPerTurn, Credit::kBestTurn})
    EXPECT_THAT(turn_returns({}, credit, 0.4), ElementsAre());
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
  const auto g = group_advantages({counted({1, 0.5}), counted({0, 0.1}), counted({0.5, 0.3})}, Credit::kPerTurn,
                                  Advantage::kRloo);
  EXPECT_THAT(g.advantages[0], ElementsAre(near(0.75), near(0.3)));
  EXPECT_THAT(g.advantages[1], ElementsAre(near(-0.75), near(-0.3)));
  EXPECT_THAT(g.advantages[2], ElementsAre(near(0), near(0)));
}

TEST(AdvantageTest, ALaterTurnIsComparedWithEnoughOthersOrWithNone) {
  // Of six trajectories two, three or four reach turn 2.
  for (size_t reached = 2; reached <= 4; ++reached) {
    std::vector<TrajectoryReturns> group;
    for (size_t i = 0; i < 6; ++i) {
      const double first = static_cast<double>(i % 2);
      group.push_back(i < reached ? counted({first, 0.3 + 0.001 * static_cast<double>(i)}) : counted({first}));
    }
    const auto g = group_advantages(group, Credit::kPerTurn, Advantage::kGrpo);
    for (size_t i = 0; i < reached; ++i) {
      EXPECT_TRUE(g.compared[i][0]);
      EXPECT_EQ(g.compared[i][1], reached == kEnough) << reached;
      EXPECT_EQ(g.advantages[i][1] != 0, reached == kEnough) << reached;
    }
  }
  const auto left = group_advantages({counted({1}), counted({0}), {{0, 0}, false}}, Credit::kTrajectory,
                                     Advantage::kGrpo);
  EXPECT_EQ(left.reason, "too_few");
  EXPECT_THAT(left.compared[0], ElementsAre(false));
}

TEST(AdvantageTest, WithoutABaselineTheReturnIsTheAdvantage) {
  const auto g = group_advantages({counted({0.4}), counted({0.4}), {{0.9}, false}}, Credit::kTrajectory,
                                  Advantage::kNone);
  EXPECT_EQ(g.reason, "");  // equal returns teach where the whole batch is what they are compared with
  EXPECT_THAT(g.advantages[0], ElementsAre(0.4));
  EXPECT_TRUE(g.compared[1][0]);
  EXPECT_FALSE(g.compared[2][0]);
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

TEST(AdvantageTest, WhatAFailureOfOursEndedTakesNoPart) {
  // Undisturbed, the four are compared; the fifth was ended after a good turn, whose gamma r_2 nobody knows.
  const std::vector<TrajectoryReturns> whole = {counted({1}), counted({0}), counted({1}), counted({0})};
  auto disturbed = whole;
  disturbed.push_back({{0.3, 0}, false});
  for (Credit credit : {Credit::kTrajectory, Credit::kPerTurn, Credit::kBestTurn}) {
    const auto expected = group_advantages(whole, credit, Advantage::kGrpo);
    const auto g = group_advantages(disturbed, credit, Advantage::kGrpo);
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(g.advantages[i], expected.advantages[i]);
    EXPECT_THAT(g.advantages[4], ElementsAre(0.0, 0.0));
    EXPECT_THAT(g.compared[4], ElementsAre(false, false));
  }
  EXPECT_EQ(group_advantages({{{1}, false}, {}}, Credit::kTrajectory, Advantage::kGrpo).reason, "all_failed");
}

TEST(AdvantageTest, EveryRuleIsThatOfTheReferenceProgram) {
  const Json golden = parse_json(read_file(fs::path(TF_SOURCE_DIR) / "tests/reference/rl.json"), "rl.json");
  for (const Json& item : golden.at("advantages")) {
    std::vector<TrajectoryReturns> group;
    for (const Json& value : item.at("returns")) group.push_back(counted({value.get<double>()}));
    const auto expected = item.at("advantages").get<std::vector<double>>();
    const auto rule = from_name<Advantage>(item.at("name").get<std::string>(), "advantage");
    for (Credit credit : {Credit::kTrajectory, Credit::kPerTurn, Credit::kBestTurn}) {
      const auto g = group_advantages(group, credit, rule);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(g.advantages[i][0], expected[i], 1e-9) << item.dump();
    }
  }
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
