#include "rollout/reward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/filesystem.h"
#include "base/json.h"
#include "rollout/expression.h"

namespace tritonforge::rollout {
namespace {

using ::testing::HasSubstr;

Verdict at(Stage stage, double speedup = 0) {
  Verdict verdict;
  verdict.stage = stage;
  verdict.compiled = stage >= Stage::kCompiled;
  verdict.correct = stage >= Stage::kCorrect;
  verdict.speedup = speedup;
  return verdict;
}

std::string message_of(const std::string& reward) {
  try {
    Reward::named(reward);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  ADD_FAILURE() << reward << " was accepted";
  return "";
}

TEST(RewardTest, Seed) {
  const Reward reward = Reward::named("seed");
  EXPECT_DOUBLE_EQ(reward(at(Stage::kNone)), -0.1);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kImported)), -0.1);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kCompiled)), 0.3);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kLaunched)), 0.3);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kCorrect)), 0.8);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 1.0)), 0.8);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 2.0)), 0.8 + 0.2 * std::log(2.0));
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 0.5)), 0.8 - 0.2 * std::log(2.0));
}

TEST(RewardTest, TheSeedsSpeedTermIsClippedToATenthAndTenTimes) {
  const Reward reward = Reward::named("seed");
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 0.1)), 0.8 + 0.2 * std::log(0.1));
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 0.01)), 0.8 + 0.2 * std::log(0.1));
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 10)), 0.8 + 0.2 * std::log(10.0));
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 1000)), 0.8 + 0.2 * std::log(10.0));
}

TEST(RewardTest, CorrectNeverEarnsLessThanWrong) {
  for (const std::string& name : reward_names()) {
    const Reward reward = Reward::named(name);
    for (int stage = 0; stage < static_cast<int>(Stage::kCorrect); ++stage) {
      for (double speedup : {1e-6, 0.01, 0.04, 0.5, 1.0, 3.0, 1e6})
        EXPECT_GT(reward(at(Stage::kTimed, speedup)), reward(at(static_cast<Stage>(stage)))) << name << " " << speedup;
    }
  }
}

TEST(RewardTest, TritonforgeCode) {
  const Reward reward = Reward::named("tritonforge_code");
  EXPECT_DOUBLE_EQ(reward(at(Stage::kImported)), 0);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kLaunched)), 0.1);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kCorrect)), 0.3);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 0.5)), 0.3);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 2.5)), 1.8);
  EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, 9)), 2.3);
}

TEST(RewardTest, KevinDrKernelStaged) {
  EXPECT_DOUBLE_EQ(Reward::named("kevin")(at(Stage::kLaunched)), 0);
  EXPECT_DOUBLE_EQ(Reward::named("kevin")(at(Stage::kTimed, 1.5)), 1.8);
  const Reward graded = Reward::named("drkernel_graded");
  EXPECT_DOUBLE_EQ(graded(at(Stage::kImported)), -0.5);
  EXPECT_DOUBLE_EQ(graded(at(Stage::kLaunched)), -0.3);
  EXPECT_DOUBLE_EQ(graded(at(Stage::kTimed, 0.9)), -0.1);
  EXPECT_DOUBLE_EQ(graded(at(Stage::kTimed, 1.0)), -0.1);  // as fast is not faster
  EXPECT_DOUBLE_EQ(graded(at(Stage::kTimed, 1.1)), 0.2);
  EXPECT_DOUBLE_EQ(graded(at(Stage::kTimed, 1.49)), 0.4);
  EXPECT_DOUBLE_EQ(graded(at(Stage::kTimed, 3.0)), 1.0);
  const Reward staged = Reward::named("staged");
  double last = -1;
  for (int stage = 0; stage <= static_cast<int>(Stage::kCorrect); ++stage) {
    const double value = staged(at(static_cast<Stage>(stage)));
    EXPECT_GT(value, last);
    last = value;
  }
  EXPECT_DOUBLE_EQ(staged(at(Stage::kTimed, 100)), 1.2);
}

TEST(RewardTest, DrKernelsGradesBeginWhereTheyShould) {
  const Reward graded = Reward::named("drkernel_graded");
  for (const auto& [speedup, grade] : {std::pair{1.19, 0.2}, {1.2, 0.4}, {1.5, 0.6}, {1.99, 0.6}, {2.0, 0.8}}) {
    EXPECT_DOUBLE_EQ(graded(at(Stage::kTimed, speedup)), grade) << speedup;
  }
}

TEST(RewardTest, KevinIsBounded) {
  EXPECT_DOUBLE_EQ(Reward::named("kevin")(at(Stage::kTimed, 25.7)), 10.3);
  EXPECT_DOUBLE_EQ(Reward::named("kevin")(at(Stage::kTimed, 10)), 10.3);
}

TEST(RewardTest, WhatTheClockCannotTellFromOneEarnsAsOne) {
  for (const std::string& name : reward_names()) {
    const Reward reward = Reward::named(name), off = Reward::named(name, 0);
    for (const double speedup : {0.975, 0.99, 1.01, 1.029})
      EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, speedup)), reward(at(Stage::kTimed, 1))) << name << " " << speedup;
    for (const double speedup : {0.5, 0.96, 1.0, 1.04, 2.0, 30.0})  // elsewhere nothing changes
      EXPECT_DOUBLE_EQ(reward(at(Stage::kTimed, speedup)), off(at(Stage::kTimed, speedup))) << name << " " << speedup;
  }
  EXPECT_DOUBLE_EQ(Reward::named("seed", 0)(at(Stage::kTimed, 1.01)), 0.8 + 0.2 * std::log(1.01));
  EXPECT_DOUBLE_EQ(Reward::named("speedup")(at(Stage::kTimed, 1.01)), 1);
  EXPECT_DOUBLE_EQ(Reward::named("speedup", 0.2)(at(Stage::kTimed, 1.2)), 1);
}

TEST(RewardTest, AnExpressionMayWeighByTheShareOfTheWork) {
  const Reward reward = Reward::named("0.3*compiled + 0.5*correct*own_share");
  Verdict verdict = at(Stage::kCorrect);
  EXPECT_DOUBLE_EQ(reward(verdict), 0.3);  // nobody measured it
  verdict.own_share = 0.6;
  EXPECT_DOUBLE_EQ(reward(verdict), 0.6);
  EXPECT_THAT(message_of("correct / (1 - own_share)"), HasSubstr("own_share is 1"));
}

TEST(RewardTest, OnlyTheSpeedupOfATimedAndCorrectOneCounts) {
  Verdict untimed = at(Stage::kCorrect), wrong = at(Stage::kTimed, 8);
  untimed.speedup = 8;
  wrong.correct = false;
  EXPECT_DOUBLE_EQ(Reward::named("seed")(untimed), 0.8);
  EXPECT_DOUBLE_EQ(Reward::named("seed")(wrong), 0.3);
}

TEST(RewardTest, ACheatNeverScoresAboveAnHonestFailure) {
  for (const std::string& name :
       {std::string("seed"), std::string("tritonforge_code"), std::string("kevin"), std::string("drkernel_graded"),
        std::string("staged"), std::string("10*correct - compiled")}) {
    const Reward reward = Reward::named(name);
    Verdict cheat = at(Stage::kTimed, 100);
    cheat.flags.push_back({Cheat::kNoKernelLaunched, ""});
    for (int stage = 0; stage < static_cast<int>(Stage::kCorrect); ++stage) {
      EXPECT_LE(reward(cheat), reward(at(static_cast<Stage>(stage)))) << name;
    }
    cheat.flags[0].kind = Cheat::kDynamicCode;  // a doubt is reported only
    EXPECT_EQ(reward(cheat), reward(at(Stage::kTimed, 100))) << name;
  }
}

TEST(RewardTest, TheOverlongPenaltyIsDaposOfTheReferenceProgram) {
  const Json golden = parse_json(read_file(fs::path(TF_SOURCE_DIR) / "tests/reference/rl.json"), "rl.json");
  const Json& overlong = golden.at("overlong");
  for (const Json& item : overlong.at("penalties")) {
    EXPECT_DOUBLE_EQ(overlong_penalty(item.at("length"), overlong.at("longest"), overlong.at("cache")),
                     item.at("penalty").get<double>())
        << item.at("length");
  }
}

TEST(RewardTest, UnknownNameNamesTheNearest) { EXPECT_THAT(message_of("sed"), HasSubstr("'seed'")); }

TEST(RewardTest, Expressions) {
  EXPECT_DOUBLE_EQ(Reward::named("0.3*compiled + 0.5*correct + if(timed, 0.2*ln(speedup), 0)")(at(Stage::kTimed, 2)),
                   0.8 + 0.2 * std::log(2.0));
  EXPECT_DOUBLE_EQ(Reward::named("stage / 7")(at(Stage::kTimed, 1)), 1);
  EXPECT_DOUBLE_EQ(Reward::named("correct")(at(Stage::kCorrect)), 1);
  EXPECT_THAT(message_of("ln(speedup)"), HasSubstr("if(timed"));
  EXPECT_THAT(message_of("0.3*compild"), HasSubstr("'compiled'"));
  EXPECT_THAT(message_of("1 +"), HasSubstr("column 4"));
  EXPECT_THAT(message_of("lnn(2)"), HasSubstr("'ln'"));
  EXPECT_THAT(message_of("clip(1, 2)"), HasSubstr("3 argument"));
  EXPECT_THAT(message_of(std::string(200, '(')), HasSubstr("nested"));
}

double value(const std::string& text) { return Expression(text, {"x"}).evaluate({3}); }

TEST(ExpressionTest, Arithmetic) {
  EXPECT_DOUBLE_EQ(value("1 + 2 * 3 - 4 / 2"), 5);
  EXPECT_DOUBLE_EQ(value("-2 ^ 2"), -4);
  EXPECT_DOUBLE_EQ(value("2 ^ 3 ^ 2"), 512);
  EXPECT_DOUBLE_EQ(value("10 - 3 - 2"), 5);
  EXPECT_DOUBLE_EQ(value("min(3, 1, 2) + max(1, 2) * clip(5, 0, 2)"), 5);
  EXPECT_DOUBLE_EQ(value("clip(x, 0, 1) + (x >= 3 and not (x == 4)) + (x < 3 or x != 3)"), 2);
  EXPECT_DOUBLE_EQ(value("if(x > 2, 7, 1 / 0)"), 7);
  EXPECT_DOUBLE_EQ(value("ln(exp(2)) + sqrt(16) + abs(-1.5e1)"), 21);
}

}  // namespace
}  // namespace tritonforge::rollout
