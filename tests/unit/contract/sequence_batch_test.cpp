#include "contract/sequence_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"

namespace tritonforge {
namespace {

using testing::HasSubstr;

Trajectory random_trajectory(const std::string& id, double advantage, uint64_t seed) {
  Rng rng(seed);
  Trajectory trajectory;
  trajectory.id = id;
  trajectory.problem_id = "p";
  trajectory.group_id = "g";
  trajectory.temperature = 0.7;
  trajectory.reward = rng.uniform();
  std::vector<int64_t> prompt = {static_cast<int64_t>(rng.below(150000)), 7};
  for (int t = 0; t < 3; ++t) {
    Turn turn;
    turn.prompt_tokens = prompt;
    for (uint64_t i = 0; i < 5 + rng.below(9); ++i) {
      turn.response_tokens.push_back(static_cast<int64_t>(rng.below(150000)));
      turn.log_probs.push_back(static_cast<float>(-9 * rng.uniform()));
      turn.weight_versions.push_back(3 + t);
    }
    turn.status = t == 2 ? TurnStatus::kTruncated : TurnStatus::kCompleted;
    prompt.insert(prompt.end(), turn.response_tokens.begin(), turn.response_tokens.end());
    prompt.push_back(11);
    trajectory.turns.push_back(std::move(turn));
    trajectory.advantages.push_back(advantage / (t + 1));
    trajectory.turn_returns.push_back(advantage);
  }
  return trajectory;
}

std::string refusal(std::string_view bytes) {
  try {
    batch_from_binary(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(SequenceBatch, JsonAndBinaryOfALeaseSayTheSame) {
  std::vector<TrainGroup> groups = {{{random_trajectory("a", 0.31, 1), random_trajectory("b", -1.2, 2)}, true},
                                    {{random_trajectory("c", 0, 3), random_trajectory("d", 0, 4)}, false}};
  groups[0].trajectories.push_back(random_trajectory("e", 0, 5));
  groups[0].trajectories.back().turns.back().status = TurnStatus::kFailed;
  Json lease = {{"lease_id", "l"}, {"groups", Json::array()}, {"dropped", {{{"group_id", "g1"}}}}};
  for (const auto& group : groups) {
    Json trajectories = Json::array();
    for (const Trajectory& trajectory : group.trajectories) trajectories.push_back(to_json(trajectory));
    lease["groups"].push_back({{"group_id", group.teaches ? "g0" : "g1"}, {"trajectories", trajectories}});
  }
  const SequenceBatch from_json = batch_of_lease_json(parse_json(lease.dump(), "lease"));
  const SequenceBatch from_binary = batch_from_binary(to_binary(batch_of_groups(groups)));
  EXPECT_EQ(from_json, from_binary);
  EXPECT_EQ(from_binary.figures.groups, 2);
  EXPECT_EQ(from_binary.figures.trajectories, 5);
  EXPECT_EQ(from_binary.figures.zero_variance_groups, 1);
  double reward = 0;  // of the four that were judged
  for (const auto& group : groups) {
    for (const Trajectory& trajectory : group.trajectories)
      reward += ended_by_failure(trajectory) ? 0 : trajectory.reward;
  }
  EXPECT_DOUBLE_EQ(from_binary.figures.reward_mean, reward / 4);
  // A group that teaches nothing costs nothing, nor does a trajectory that a failure of ours ended.
  ASSERT_EQ(from_binary.sequences.size(), 2u);
  EXPECT_EQ(from_binary.sequences[0].temperature, 0.7);
  EXPECT_EQ(from_binary.sequences[0].trajectory_id, "a");
  EXPECT_EQ(from_binary.sequences[1].trajectory_id, "b");
}

TEST(SequenceBatch, WhatWasNotSampledCarriesNoFiguresOfIt) {
  TrainSequence taught{{5, 6, 7}, {0, 1, 1}, {0, 0, 0}, {0, 0, 0}, {-1, -1, -1}, "", 1.0};
  const std::string bytes = to_binary({.step = 12, .sequences = {taught}});
  const SequenceBatch read = batch_from_binary(bytes);
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.sequences, std::vector<TrainSequence>{taught});
  taught.weight_versions[1] = 0;  // version 0 is one
  EXPECT_EQ(to_binary({.step = 12, .sequences = {taught}}).size(), bytes.size() + 2 * (4 + 4 + 8));
}

TEST(SequenceBatch, EveryCutIsRefused) {
  const std::string bytes = to_binary(batch_of_groups({{.trajectories = {random_trajectory("a", 1, 1)}}}));
  for (size_t length = 0; length < bytes.size(); ++length)
    ASSERT_NE(refusal(bytes.substr(0, length)), "accepted") << length << " of " << bytes.size() << " bytes";
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("1 bytes are left over"));
}

TEST(SequenceBatch, NamesWhatIsWrong) {
  const TrainSequence s{{5, 6}, {0, 1}, {0, -1}, {0, 1}, {-1, 0}, "t1", 1.0};
  const std::string bytes = to_binary({.sequences = {s}});
  const auto with = [&](size_t at, auto value) {
    std::string changed = bytes;
    std::memcpy(changed.data() + at, &value, sizeof value);
    return refusal(changed);
  };
  constexpr size_t kHeader = 4 + 4 + 8 + 4 * 8 + 8, kHead = kHeader + 3 * 4 + 8, kTokens = kHead + 2;
  EXPECT_THAT(with(0, 'x'), HasSubstr("do not begin with 'TFSQ'"));
  EXPECT_THAT(with(4, uint32_t{2}), HasSubstr("version 2, this program reads 1"));
  EXPECT_THAT(with(kHeader - 8, uint64_t{1} << 60), HasSubstr("cannot be in"));
  EXPECT_THAT(with(kHeader, uint32_t{0xffffffff}), HasSubstr("sequences[0] (t1)"));
  EXPECT_THAT(with(kHeader + 8, uint32_t{6}), HasSubstr("unknown flags 0x6"));
  EXPECT_THAT(with(kHeader + 12, std::nan("")), HasSubstr("is not a temperature"));
  EXPECT_THAT(with(kTokens + 4, int32_t{-3}), HasSubstr("token -3 at 1 is negative"));
  EXPECT_THAT(with(kTokens + 8, uint8_t{2}), HasSubstr("loss_mask holds 2"));
}

TEST(SequenceBatch, WhatHasNoBinaryFormIsRefusedByName) {
  TrainSequence s{{5, int64_t{1} << 31}, {0, 1}, {0, -1}, {0, 1}, {-1, 0}, "t1", 1.0};
  EXPECT_THROW(to_binary({.sequences = {s}}), Error);
  s.tokens = {5, 6};
  EXPECT_NO_THROW(to_binary({.sequences = {s}}));
  s.weight_versions[0] = 3;  // of a token without loss
  EXPECT_THROW(to_binary({.sequences = {s}}), Error);
  s.tokens = {5};
  EXPECT_THROW(to_binary({.sequences = {s}}), Error);
}

}  // namespace
}  // namespace tritonforge
