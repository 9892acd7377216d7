#include "contract/trajectory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Turn make_turn(std::vector<int64_t> prompt, std::vector<int64_t> response, int64_t version,
               TurnStatus status = TurnStatus::kCompleted) {
  Turn turn;
  turn.prompt_tokens = std::move(prompt);
  turn.response_tokens = std::move(response);
  for (size_t i = 0; i < turn.response_tokens.size(); ++i) {
    turn.log_probs.push_back(-0.1f * static_cast<float>(turn.response_tokens[i]));
    turn.weight_versions.push_back(version);
  }
  turn.text = "text";
  turn.code = "code";
  turn.status = status;
  return turn;
}

Trajectory make_trajectory(std::vector<Turn> turns, std::vector<double> advantages) {
  Trajectory trajectory;
  trajectory.id = "t1";
  trajectory.problem_id = "p1";
  trajectory.group_id = "g1";
  trajectory.turns = std::move(turns);
  trajectory.advantages = std::move(advantages);
  trajectory.temperature = 0.8;
  return trajectory;
}

TEST(TrainSequences, ConsecutiveTurnsAreOneSequence) {
  const auto sequences = to_train_sequences(
      make_trajectory({make_turn({1, 2}, {3, 4}, 5), make_turn({1, 2, 3, 4, 9}, {6}, 7)}, {0.5, -1}));
  ASSERT_EQ(sequences.size(), 1u);
  const auto& sequence = sequences[0];
  EXPECT_THAT(sequence.tokens, ElementsAre(1, 2, 3, 4, 9, 6));
  EXPECT_THAT(sequence.loss_mask, ElementsAre(0, 0, 1, 1, 0, 1));
  EXPECT_THAT(sequence.advantages, ElementsAre(0, 0, 0.5f, 0.5f, 0, -1));
  EXPECT_THAT(sequence.weight_versions, ElementsAre(-1, -1, 5, 5, -1, 7));
  EXPECT_THAT(sequence.old_log_probs, ElementsAre(0, 0, -0.1f * 3, -0.1f * 4, 0, -0.1f * 6));
  EXPECT_EQ(sequence.trajectory_id, "t1");
  EXPECT_EQ(sequence.temperature, 0.8);
}

TEST(TrainSequences, CutHistoryIsASequenceOfItsOwn) {
  // The second prompt lacks token 4, a third continues the second.
  const auto sequences = to_train_sequences(make_trajectory(
      {make_turn({1, 2}, {3, 4}, 0), make_turn({1, 2, 3, 9}, {6}, 0), make_turn({1, 2, 3, 9, 6, 7}, {8}, 0)},
      {1, 2, 3}));
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_THAT(sequences[0].tokens, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sequences[1].tokens, ElementsAre(1, 2, 3, 9, 6, 7, 8));
  EXPECT_THAT(sequences[1].advantages, ElementsAre(0, 0, 0, 0, 2, 0, 3));
}

TEST(TrainSequences, FailedTurnsCarryNoLoss) {
  // Between others a failed turn is context; at the end it goes; alone it leaves nothing.
  const auto middle = to_train_sequences(make_trajectory(
      {make_turn({1}, {2}, 0), make_turn({1, 2}, {3}, 0, TurnStatus::kFailed), make_turn({1, 2, 3}, {4}, 0)},
      {1, 1, 1}));
  ASSERT_EQ(middle.size(), 1u);
  EXPECT_THAT(middle[0].loss_mask, ElementsAre(0, 1, 0, 1));
  const auto last = to_train_sequences(
      make_trajectory({make_turn({1}, {2}, 0), make_turn({1, 2, 7}, {3}, 0, TurnStatus::kFailed)}, {1, 1}));
  ASSERT_EQ(last.size(), 1u);
  EXPECT_THAT(last[0].tokens, ElementsAre(1, 2));
  EXPECT_TRUE(to_train_sequences(make_trajectory({make_turn({1}, {2}, 0, TurnStatus::kFailed)}, {1})).empty());
}

TEST(TrainSequences, TurnsWithoutLossAreContext) {
  auto trajectory = make_trajectory({make_turn({1}, {2}, 0), make_turn({1, 2}, {3}, 0), make_turn({1, 2, 3}, {4}, 0)},
                                    {1, 2, 3});
  trajectory.carries_loss = {true, false, true};
  const auto sequences = to_train_sequences(trajectory);
  ASSERT_EQ(sequences.size(), 1u);
  EXPECT_THAT(sequences[0].loss_mask, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(sequences[0].advantages, ElementsAre(0, 1, 0, 3));
  trajectory.carries_loss = {true, false, false};
  EXPECT_THAT(to_train_sequences(trajectory)[0].tokens, ElementsAre(1, 2));
  trajectory.carries_loss = {false, false, false};
  EXPECT_TRUE(to_train_sequences(trajectory).empty());
}

TEST(TrainSequences, AbortedAndTruncatedTokensCount) {
  const auto sequences = to_train_sequences(
      make_trajectory({make_turn({1}, {2, 3}, 0, TurnStatus::kTruncated), make_turn({9}, {}, 0, TurnStatus::kAborted),
                       make_turn({8}, {7}, 0, TurnStatus::kAborted)},
                      {1, 1, 1}));
  ASSERT_EQ(sequences.size(), 2u);
  EXPECT_THAT(sequences[0].loss_mask, ElementsAre(0, 1, 1));
  EXPECT_THAT(sequences[1].tokens, ElementsAre(8, 7));
}

TEST(TrainSequences, AnIncompleteGroupIsRefused) {
  try {
    to_train_sequences(make_trajectory({make_turn({1}, {2}, 0)}, {}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("trajectory 't1' has 0 advantages for 1 turns"));
  }
}

TEST(Trajectory, JsonRoundTripIsExact) {
  auto trajectory = make_trajectory({make_turn({1, 2}, {3, 4}, 5), make_turn({9}, {}, 5, TurnStatus::kFailed)},
                                    {0.1, 0});
  trajectory.turns[0].log_probs = {-1.0f / 3, -1e-30f};
  trajectory.turns[0].verdict.stage = Stage::kCorrect;
  trajectory.turns[0].verdict.correct = true;
  trajectory.turns[0].verdict.diagnostics = "all \"well\"\n";
  trajectory.turn_returns = {1.0 / 3, 0};
  trajectory.carries_loss = {true, false};
  const auto again = trajectory_from_json(parse_json(to_json(trajectory).dump(), "test"));
  EXPECT_EQ(to_json(again), to_json(trajectory));
  EXPECT_EQ(again.turns[0].log_probs, trajectory.turns[0].log_probs);
  EXPECT_EQ(again.turn_returns, trajectory.turn_returns);
  EXPECT_EQ(again.carries_loss, trajectory.carries_loss);
  EXPECT_EQ(again.turns[0].verdict.stage, Stage::kCorrect);
  EXPECT_EQ(again.turns[1].status, TurnStatus::kFailed);
}

TEST(Trajectory, ErrorsNameTheField) {
  const Json good = to_json(make_trajectory({make_turn({1}, {2}, 0)}, {1}));
  const auto error_of = [](const Json& json) -> std::string {
    try {
      trajectory_from_json(json);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return error.what();
    }
    return "no error";
  };
  Json bad = good;
  bad["turns"][0]["log_probs"] = Json::array();
  EXPECT_EQ(error_of(bad), "trajectory 't1' turn 0: 'log_probs' has 0 entries, 'response_tokens' has 1");
  bad = good;
  bad["turns"][0]["status"] = "complete";
  EXPECT_THAT(error_of(bad), HasSubstr("did you mean 'completed'"));
  bad = good;
  bad.erase("group_id");
  EXPECT_EQ(error_of(bad), "trajectory 't1': field 'group_id' is missing");
  bad = good;
  bad["advantages"] = {1, 2};
  EXPECT_THAT(error_of(bad), HasSubstr("'advantages' has 2 entries"));
}

}  // namespace
}  // namespace tritonforge
