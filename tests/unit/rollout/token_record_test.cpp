#include "rollout/token_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tritonforge::rollout {
namespace {

using ::testing::HasSubstr;

Turn turn(std::vector<int64_t> prompt, std::vector<int64_t> response, std::vector<int64_t> versions) {
  Turn turn;
  turn.prompt_tokens = std::move(prompt);
  turn.response_tokens = std::move(response);
  turn.log_probs.assign(turn.response_tokens.size(), -0.693147182f);
  turn.weight_versions = std::move(versions);
  turn.status = TurnStatus::kCompleted;
  return turn;
}

// A turn, one that goes on from it, one that starts anew, one without an answer.
Trajectory sample() {
  Trajectory t;
  t.id = "g.0";
  t.turns = {turn({1, 2, 3}, {4, 5}, {7, 8}), turn({1, 2, 3, 4, 5, 6}, {2147483647}, {8}),
             turn({9}, {1, 2, 3}, {8, 8, -1}), turn({}, {}, {})};
  return t;
}

Trajectory without_tokens(Trajectory t) {
  for (Turn& each : t.turns) each = Turn{.status = each.status};
  return t;
}

TEST(TokenRecord, IsReadAsItWasWritten) {
  const Trajectory whole = sample();
  Trajectory read = without_tokens(whole);
  add_tokens(read, token_record(whole));
  EXPECT_EQ(to_json(read), to_json(whole));
  // What a later turn shares with the one before is not written again.
  Trajectory longer = whole;
  longer.turns.resize(1);
  longer.turns[0].prompt_tokens.assign(1000, 1);
  const size_t one = token_record(longer).size();
  longer.turns.push_back(longer.turns[0]);
  longer.turns[1].prompt_tokens.insert(longer.turns[1].prompt_tokens.end(), {4, 5, 6});
  EXPECT_LT(token_record(longer).size(), one + 100);
}

TEST(TokenRecord, WhatIsNoRecordIsRefusedByName) {
  const Trajectory whole = sample();
  const std::string record = token_record(whole);
  for (size_t length = 0; length < record.size(); ++length) {
    Trajectory read = without_tokens(whole);
    EXPECT_THROW(add_tokens(read, record.substr(0, length)), Error) << length;
  }
  Trajectory read = without_tokens(whole);
  EXPECT_THROW(add_tokens(read, record + "x"), Error);
  read.turns.pop_back();
  try {
    add_tokens(read, record);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("4 turns, the transcript has 3"));
  }
}

TEST(TokenRecord, WhatIsNoNumberIsNotWritten) {
  for (const float value : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
    Trajectory bad = sample();
    bad.turns[0].log_probs[1] = value;
    EXPECT_THROW(token_record(bad), Error);
  }
  Trajectory bad = sample();
  bad.turns[0].response_tokens[0] = int64_t{1} << 31;
  EXPECT_THROW(token_record(bad), Error);
  bad = sample();
  bad.turns[0].weight_versions.pop_back();
  EXPECT_THROW(token_record(bad), Error);
}

}  // namespace
}  // namespace tritonforge::rollout
