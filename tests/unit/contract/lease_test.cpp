#include "contract/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge {
namespace {

using testing::HasSubstr;

Turn turn(bool compiled, bool correct, TurnStatus status = TurnStatus::kCompleted) {
  Turn turn;
  turn.prompt_tokens = {1, 2};
  turn.response_tokens = {3, 4, 5};
  turn.log_probs = {-1, -2, -3};
  turn.weight_versions = {7, 7, 7};
  turn.text = "answer";
  turn.code = "code";
  turn.verdict.compiled = compiled;
  turn.verdict.correct = correct;
  turn.reward = correct ? 0.8 : 0.3;
  turn.status = status;
  turn.generate_s = 0.5;
  turn.evaluate_s = 0.25;
  return turn;
}

Trajectory trajectory(const std::string& id, std::vector<Turn> turns) {
  Trajectory result;
  result.id = id;
  result.problem_id = "p";
  result.group_id = "g";
  result.reward = 0.1;
  result.advantages.assign(turns.size(), 0.5);
  result.turns = std::move(turns);
  return result;
}

TEST(LeasePath, OfAnyIdIsThatOfOneLease) {
  EXPECT_EQ(lease_path("rl-step-2"), "/v2/leases/rl-step-2");
  EXPECT_EQ(lease_path("bench-level1/19 ReLU?", "commit"), "/v2/leases/bench-level1%2F19%20ReLU%3F/commit");
}

TEST(RolloutFigures, CountTrajectoriesByTheirTurns) {
  RolloutFigures figures;
  figures.add(trajectory("a", {turn(false, false), turn(true, true)}));
  figures.add(trajectory("b", {turn(true, true)}));
  figures.add(trajectory("c", {turn(true, false), turn(false, false, TurnStatus::kFailed)}));
  figures.add(trajectory("d", {}));  // counts nowhere
  EXPECT_EQ(figures.trajectories, 3);
  EXPECT_EQ(figures.failed, 1);
  EXPECT_EQ(figures.judged(), 2);
  EXPECT_EQ(figures.compiled, 1);
  EXPECT_EQ(figures.passed_first_turn, 1);
  EXPECT_EQ(figures.passed, 2);
  EXPECT_EQ(figures.turns, 3);
  EXPECT_EQ(figures.response_tokens, 15);
  EXPECT_DOUBLE_EQ(figures.reward, 0.1 + 0.1);
  EXPECT_DOUBLE_EQ(figures.generate_s, 2.5);
  EXPECT_DOUBLE_EQ(figures.per_trajectory(figures.reward), 0.1);
  EXPECT_EQ(RolloutFigures().per_trajectory(1), 0);
}

TEST(RolloutFigures, DoNotCountACheatAsAPass) {
  Turn cheat = turn(true, true);
  cheat.verdict.flags.push_back({Cheat::kTimedOutputWrong, "an output of a timed call"});
  RolloutFigures figures;
  figures.add(trajectory("a", {cheat}));
  figures.add(trajectory("b", {cheat, turn(true, true)}));
  EXPECT_EQ(figures.compiled, 2);
  EXPECT_EQ(figures.passed_first_turn, 0);
  EXPECT_EQ(figures.passed, 1);
}

TEST(LeaseRequest, ReadsWhatIsWrittenAndNamesWhatIsWrong) {
  const LeaseRequest read = lease_request_from_json(
      to_json(LeaseRequest{.lease_id = "l", .count = 2, .group_ids = {"a", "b"}, .samples = 3, .timeout_s = 30}));
  EXPECT_EQ(read.lease_id, "l");
  EXPECT_EQ(read.count, 2);
  EXPECT_EQ(read.group_ids, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read.samples, 3);
  EXPECT_EQ(read.timeout_s, 30);
  EXPECT_EQ(lease_request_from_json({{"lease_id", "l"}, {"group_ids", {"a", "b"}}}).count, 2);
  EXPECT_EQ(read.order, LeaseOrder::kAge);
  EXPECT_EQ(read.replay.groups, 0);
  LeaseRequest whole;
  whole.lease_id = "l";
  whole.order = LeaseOrder::kPassRate;
  whole.replay = {.groups = 2, .leases = 3, .order = LeaseOrder::kNewest, .of = "rl-"};
  whole.of = "rl-";
  whole.at_least = {"rl-1-0"};
  EXPECT_EQ(to_json(lease_request_from_json(to_json(whole))), to_json(whole));
  for (const Json& wrong :
       {Json{{"order", "oldest"}}, Json{{"replay", {{"groups", -1}}}}, Json{{"replay", {{"groups", 1}, {"leases", 0}}}},
        Json{{"group_ids", {"a"}}, {"of", "rl-"}}, Json{{"group_ids", {"a"}}, {"at_least", {"a"}}},
        Json{{"replay", {{"leases", 1}}}}, Json{{"replay", {{"groups", 1}, {"form", "rl-"}}}}}) {
    Json body = wrong;
    body["lease_id"] = "l";
    EXPECT_THROW(lease_request_from_json(body), Error) << wrong;
  }
  EXPECT_THROW(lease_request_from_json({{"lease_id", "l"}, {"count", 1}, {"group_ids", {"a", "b"}}}), Error);
  EXPECT_THROW(lease_request_from_json({{"lease_id", "l"}, {"samples", -1}}), Error);
  EXPECT_THROW(lease_request_from_json({{"lease_id", "l"}, {"smaples", 1}}), Error);
}

TEST(Lease, TravelsWithoutTokenArrays) {
  Lease lease;
  lease.id = "rl-step-3";
  const Trajectory sample = trajectory("g.0", {turn(true, true)});
  lease.figures.add(sample);
  lease.groups.push_back({"g", "p", /*replayed=*/true, lease.figures, {sample}});
  lease.dropped.push_back({"g", "zero_variance"});
  const Json json = to_json(lease);
  for (const char* bulky : {"prompt_tokens", "response_tokens", "log_probs", "weight_versions"})
    EXPECT_FALSE(json.at("groups").at(0).at("samples").at(0).at("turns").at(0).contains(bulky)) << bulky;
  const Lease read = lease_from_json(parse_json(json.dump(), "test"));
  EXPECT_EQ(read.id, lease.id);
  EXPECT_EQ(read.figures, lease.figures);
  ASSERT_EQ(read.groups.size(), 1u);
  EXPECT_EQ(read.groups[0].figures, lease.figures);
  EXPECT_EQ(read.groups[0].problem_id, "p");
  EXPECT_TRUE(read.groups[0].replayed);
  EXPECT_TRUE(read.groups[0].samples.at(0).turns.at(0).verdict.correct);
  EXPECT_TRUE(read.groups[0].samples[0].turns[0].response_tokens.empty());
  ASSERT_EQ(read.dropped.size(), 1u);
  EXPECT_EQ(read.dropped[0].reason, "zero_variance");
  EXPECT_EQ(to_json(read), json);
}

TEST(Lease, NamesTheFieldThatIsWrong) {
  Lease lease;
  lease.id = "l";
  const auto refusal = [&](const char* field, Json value) {
    Json json = to_json(lease);
    json[field] = std::move(value);
    try {
      lease_from_json(json);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("figures", 3), HasSubstr("'trajectories' is missing"));
  EXPECT_THAT(refusal("groups", "none"), HasSubstr("lease 'l': field 'groups' must be a list"));
  EXPECT_THAT(refusal("dropped", {{{"group_id", "g"}}}), HasSubstr("'reason' is missing"));
}

}  // namespace
}  // namespace tritonforge
