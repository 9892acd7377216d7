#include "rollout/stored_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::rollout {
namespace {

Trajectory trajectory(size_t sample, size_t turns) {
  Trajectory trajectory;
  trajectory.id = fmt::format("g.{}", sample);
  trajectory.group_id = "g";
  trajectory.problem_id = "p";
  for (size_t t = 0; t < turns; ++t) {
    Turn& turn = trajectory.turns.emplace_back();
    turn.prompt_tokens = {1, 2};
    turn.response_tokens = {3, 4};
    turn.log_probs = {-0.5f, -0.25f};
    turn.weight_versions = {7, 7};
    turn.status = TurnStatus::kCompleted;
  }
  trajectory.turn_returns.assign(turns, 0.5);
  return trajectory;
}

StoredGroup group(const std::string& id, const std::string& reason, const std::vector<size_t>& turns) {
  StoredGroup group;
  group.id = id;
  group.problem_id = "p";
  group.reason = reason;
  GroupCredit credit;
  for (size_t sample = 0; sample < turns.size(); ++sample) {
    const TrajectoryRow row(trajectory(sample, turns[sample]));
    group.rows.push_back({sample, {row.body, row.record}});
    credit.advantages.emplace_back(turns[sample], 0.5 - static_cast<double>(sample));
    credit.carries_loss.emplace_back(turns[sample], true);
  }
  group.credit = text_of(credit);
  return group;
}

StoredLease sample_lease() { return {"l", {group("g0", "", {0, 1, 2}), group("g1", "zero_variance", {1})}}; }

TEST(StoredLease, FiguresAreOfAllAndTranscriptsOfThoseWithATurnFirst) {
  const Lease lease = lease_of(sample_lease(), 1);
  EXPECT_EQ(lease.id, "l");
  EXPECT_EQ(lease.figures.trajectories, 3);
  EXPECT_EQ(lease.groups.at(0).figures.trajectories, 2);
  EXPECT_EQ(lease.groups[0].figures.response_tokens, 6);
  ASSERT_EQ(lease.groups[0].samples.size(), 1u);
  EXPECT_EQ(lease.groups[0].samples[0].id, "g.1");
  ASSERT_EQ(lease.dropped.size(), 1u);
  EXPECT_EQ(lease.dropped[0].group_id, "g1");
  // All of them, where all are asked for: a sample without a turn counts in a bench.
  EXPECT_EQ(lease_of(sample_lease(), 8).groups[0].samples.size(), 3u);
}

TEST(StoredLease, ItsTextAndItsBatchSayTheSame) {
  const StoredLease stored = sample_lease();
  const Json text = parse_json(text_of(stored), "lease");
  EXPECT_EQ(text.at("dropped").at(0).at("reason"), "zero_variance");
  EXPECT_EQ(batch_of(stored), batch_of_lease_json(text));
  EXPECT_EQ(batch_of(stored).figures.zero_variance_groups, 1);
}

}  // namespace
}  // namespace tritonforge::rollout
