#include "rollout/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <thread>

#include "base/clock.h"
#include "contract/trace_ids.h"
#include "mock_peers.h"

namespace tritonforge::rollout {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GeneratorTest : public ::testing::Test {
 protected:
  Trajectory run(const GroupSpec& group, int64_t sample = 0) {
    const Peers peers(mock.options());
    const Generator generator(peers, codec, gate, activity);
    auto trajectory = generator.run(group, sample, {});
    EXPECT_TRUE(trajectory.has_value());
    return std::move(trajectory).value_or(Trajectory{});
  }
  MockPeers mock;
  ByteCodec codec;
  Gate gate{2};
  Activity activity;
};

TEST_F(GeneratorTest, RunsThreeTurnsWithRealFeedbackAndKeepsEveryToken) {
  const auto t = run(group_spec("g"));
  ASSERT_EQ(t.turns.size(), 3u);
  for (size_t i = 0; i + 1 < t.turns.size(); ++i) {
    auto expected = t.turns[i].prompt_tokens;
    expected.insert(expected.end(), t.turns[i].response_tokens.begin(), t.turns[i].response_tokens.end());
    for (int64_t id : byte_tokens("\n<user>mismatch: output 0 is wrong\n<assistant>")) expected.push_back(id);
    EXPECT_EQ(t.turns[i + 1].prompt_tokens, expected);
  }
  EXPECT_EQ(codec.text(t.turns[0].prompt_tokens), "<user>class Model: pass\n<assistant>");
  EXPECT_EQ(t.turns[0].log_probs.size(), t.turns[0].response_tokens.size());
  EXPECT_EQ(t.turns[0].weight_versions[0], 3);
  EXPECT_EQ(t.turns[0].response_tokens.back(), kEnd);
  EXPECT_DOUBLE_EQ(t.turns[0].reward, 0.3);
  EXPECT_DOUBLE_EQ(t.reward, 0.3 * (1 + 0.4 + 0.16));
  EXPECT_EQ(t.turn_returns.size(), 3u);
  // What is written down of a turn for people.
  EXPECT_EQ(t.turns[0].feedback, "mismatch: output 0 is wrong");
  EXPECT_EQ(t.turns[2].feedback, "");  // nobody was told
  EXPECT_GT(t.turns[0].generate_begun, 0);
  EXPECT_GE(t.turns[0].evaluate_begun, t.turns[0].generate_begun);
  EXPECT_GE(t.turns[1].generate_begun, t.turns[0].evaluate_begun);
}

TEST_F(GeneratorTest, BothRequestsOfATurnCarryItsIdAndItsTrace) {
  run(group_spec("g"));
  for (const net::Headers* headers : {&mock.engine_headers, &mock.evaluator_headers}) {  // of the last turn
    EXPECT_EQ(headers->at("x-request-id"), "g.0-2");
    EXPECT_EQ(headers->at("traceparent"), "00-" + trace_id_of("g.0") + "-" + span_id_of("g.0-2") + "-01");
  }
}

TEST_F(GeneratorTest, TheRouterIsToldWhatAnAnswerIsFor) {
  GroupSpec group = group_spec("g");
  EXPECT_EQ(group.options.priority, Priority::kTraining);
  for (const std::string model : {"", "other"}) {
    group.options.chat_model = model;
    for (const Priority priority : {Priority::kTraining, Priority::kEvaluation}) {
      group.options.priority = priority;
      run(group);
      EXPECT_EQ(mock.engine_headers.at(kPriorityHeader), name_of(priority)) << model;
    }
  }
}

// In whole seconds 0.4 would be 0, which every server refuses.
TEST_F(GeneratorTest, AnEngineIsToldTheWholeOfItsTime) {
  PeerOptions options = mock.options();
  options.generate_timeout_s = 20.5;
  const Peers peers(options);
  Generator(peers, codec, gate, activity).run(group_spec("g"), 0, {});
  EXPECT_EQ(mock.engine_headers.at("x-timeout-s"), "20.5");
}

// As its candidates are judged, once for all samples and turns of a group.
TEST_F(GeneratorTest, TheProblemIsPreparedWhileTheFirstAnswerIsGenerated) {
  int64_t generations_before = -1;
  mock.engine = [&, answer = mock.engine](const Json& body) {
    const std::lock_guard lock(mock.mutex);
    if (generations_before < 0) generations_before = std::ssize(mock.prepared);
    return answer(body);
  };
  for (const int64_t sample : {0, 1}) run(group_spec("g"), sample);
  EXPECT_EQ(generations_before, 1);
  ASSERT_EQ(mock.prepared.size(), 1u);
  ASSERT_EQ(mock.judged.size(), 6u);
  Json judged = mock.judged[0];
  judged.erase("candidate");
  EXPECT_EQ(mock.prepared[0], judged);
}

TEST_F(GeneratorTest, SeedsFollowFromGroupSampleAndTurn) {
  const auto a = run(group_spec("g"), 0), b = run(group_spec("g"), 0), c = run(group_spec("g"), 1);
  EXPECT_EQ(a.turns[0].text, b.turns[0].text);
  EXPECT_EQ(a.turns[2].text, b.turns[2].text);
  EXPECT_NE(a.turns[0].text, c.turns[0].text);
  EXPECT_NE(a.turns[0].text, a.turns[1].text);
}

TEST_F(GeneratorTest, ASampleBehindTheVersionBarrierWaitsWithoutPatience) {
  std::atomic<int> refused = 0;
  mock.engine = [&](const Json& body) {
    if (++refused > 5) return MockPeers::reply(body, answer_with("after the barrier"), "stop");
    auto response = net::Response::error(Error(ErrorKind::kUnavailable, "version 7 or newer is asked for"));
    response.headers.emplace("x-min-weight-version", "7");
    return response;
  };
  PeerOptions options = mock.options();
  options.patience_s = 0;  // a failure would end it at once
  const auto t = Generator(Peers(options), codec, gate, activity).run(group_spec("g"), 0, {});
  ASSERT_TRUE(t);
  EXPECT_EQ(t->turns.at(0).status, TurnStatus::kCompleted) << t->turns[0].verdict.diagnostics;
  EXPECT_THAT(t->turns[0].text, HasSubstr("after the barrier"));
}

TEST_F(GeneratorTest, EndsAtACorrectTurnThatNobodyTimed) {
  mock.judge = [](const std::string&) { return MockPeers::correct(); };
  const auto t = run(group_spec("g"));
  ASSERT_EQ(t.turns.size(), 1u);
  EXPECT_DOUBLE_EQ(t.reward, 0.8);
}

TEST_F(GeneratorTest, GoesOnAfterACorrectTurnThatIsStillSlow) {
  double speedup = 1.1;
  mock.judge = [&](const std::string&) {
    Verdict v = MockPeers::correct();
    v.stage = Stage::kTimed;
    v.speedup = speedup;
    return v;
  };
  // The condition is the verdict's, whatever the scale of the reward.
  for (const char* reward : {"seed", "tritonforge_code", "kevin", "drkernel_graded", "staged", "1000*correct"}) {
    auto group = group_spec("g");
    group.options.reward = reward;
    group.options.stop_speedup = 2;
    speedup = 1.1;
    EXPECT_EQ(run(group).turns.size(), 3u) << reward;
    speedup = 2;
    EXPECT_EQ(run(group).turns.size(), 1u) << reward;
  }
}

TEST_F(GeneratorTest, NoiseOfTheClockIsPaidWhereTheRequestSaysSo) {
  mock.judge = [](const std::string&) {
    Verdict v = MockPeers::correct();
    v.stage = Stage::kTimed;
    v.speedup = 1.02;
    return v;
  };
  auto group = group_spec("g");
  group.options.max_turns = 1;
  EXPECT_DOUBLE_EQ(run(group).turns.at(0).reward, 0.8);
  group.options.speed_resolution = 0;
  EXPECT_DOUBLE_EQ(run(group).turns.at(0).reward, 0.8 + 0.2 * std::log(1.02));
}

TEST_F(GeneratorTest, AFastCheatIsNoGoal) {
  Turn turn;
  turn.verdict = MockPeers::correct();
  turn.verdict.stage = Stage::kTimed;
  turn.verdict.speedup = 50;
  EXPECT_TRUE(reached_goal(turn, {}));
  turn.verdict.flags.push_back({Cheat::kClockMismatch, ""});
  EXPECT_FALSE(reached_goal(turn, {}));
  turn.verdict.flags.clear();
  turn.verdict.correct = false;
  EXPECT_FALSE(reached_goal(turn, {}));
}

TEST_F(GeneratorTest, ATruncatedTurnIsToldSoAndTheEndTokenIsNotSampled) {
  mock.engine = [](const Json& body) { return MockPeers::reply(body, "```python\nimport tor", "length"); };
  auto t = run(group_spec("g"));
  ASSERT_EQ(t.turns.size(), 3u);
  t.advantages.assign(3, 1.0);
  EXPECT_EQ(t.turns[0].status, TurnStatus::kTruncated);
  EXPECT_EQ(t.turns[0].verdict.fault, Fault::kTruncated);
  EXPECT_DOUBLE_EQ(t.turns[0].reward, -0.1);
  const size_t end = t.turns[0].prompt_tokens.size() + t.turns[0].response_tokens.size();
  EXPECT_EQ(t.turns[1].prompt_tokens[end], kEnd);
  EXPECT_EQ(mock.evaluations, 0);
  const auto sequences = to_train_sequences(t);
  ASSERT_EQ(sequences.size(), 1u);
  EXPECT_EQ(sequences[0].loss_mask[end], 0);
  EXPECT_EQ(sequences[0].loss_mask[end - 1], 1);
}

TEST_F(GeneratorTest, AnOverlongAnswerCostsWhereAPenaltyIsAskedFor) {
  const std::string code = answer_with("x");
  auto group = group_spec("g");
  group.options.max_turns = 1;
  group.options.sampling.max_new_tokens = 200;
  group.options.overlong_cache = 100;
  const auto reward_of = [&](Overlong overlong, size_t padding, const char* finish) {
    group.options.overlong = overlong;
    mock.engine = [=](const Json& body) { return MockPeers::reply(body, code + std::string(padding, ' '), finish); };
    return run(group).turns.at(0).reward;
  };
  const size_t to_150 = 150 - code.size() - 1;  // with the end of turn
  EXPECT_DOUBLE_EQ(reward_of(Overlong::kKeep, to_150, "stop"), 0.3);
  EXPECT_DOUBLE_EQ(reward_of(Overlong::kPenalty, 0, "stop"), 0.3);
  EXPECT_DOUBLE_EQ(reward_of(Overlong::kPenalty, to_150, "stop"), 0.3 - 0.5);
  EXPECT_DOUBLE_EQ(reward_of(Overlong::kPenalty, 0, "length"), 0.3 - 1);
}

TEST_F(GeneratorTest, NoCodeIsAnHonestFailureOfTheModel) {
  mock.engine = [](const Json& body) { return MockPeers::reply(body, "I cannot.", "stop"); };
  const auto t = run(group_spec("g"));
  EXPECT_EQ(t.turns[0].verdict.fault, Fault::kNoCode);
  EXPECT_EQ(t.turns[0].status, TurnStatus::kCompleted);
  EXPECT_DOUBLE_EQ(t.turns[0].reward, -0.1);
}

TEST_F(GeneratorTest, StopsWhereTheContextHasNoRoom) {
  auto group = group_spec("g");
  group.options.max_context = 160;  // the first answer takes about 90 of them
  const auto t = run(group);
  EXPECT_EQ(t.turns.size(), 1u);
  EXPECT_NE(t.turns[0].status, TurnStatus::kFailed);
  group.options.max_context = 10;
  const auto none = run(group);
  ASSERT_EQ(none.turns.size(), 1u);
  EXPECT_EQ(none.turns[0].status, TurnStatus::kFailed);
  EXPECT_EQ(none.turns[0].verdict.fault, Fault::kPromptTooLong);
}

TEST_F(GeneratorTest, AnEngineThatFailsAndRecoversCostsNothing) {
  std::atomic<int> calls{0};
  mock.engine = [&](const Json& body) {
    if (++calls <= 3)
      return net::Response::json({{"error", {{"message", "restarting"}, {"type", "unavailable"}}}}, 502);
    return MockPeers::reply(body, answer_with("x"), "stop");
  };
  auto group = group_spec("g");
  group.options.max_turns = 1;
  const auto t = run(group);
  EXPECT_EQ(t.turns[0].status, TurnStatus::kCompleted);
  EXPECT_EQ(calls, 4);
}

// A wrong key is no sample's fault, and takes no patience.
TEST_F(GeneratorTest, AnEngineThatRefusesItsKeyIsWaitedForByAllAndAskedByOne) {
  std::atomic<int> calls{0};
  std::atomic<bool> mended{false};
  mock.engine = [&](const Json& body) {
    if (!mended) {
      ++calls;
      return net::Response::json({{"error", {{"message", "wrong key"}}}}, 401);
    }
    return MockPeers::reply(body, answer_with("x"), "stop");
  };
  PeerOptions options = mock.options();
  options.patience_s = 0;
  options.longest_pause_s = 0.2;
  const Peers peers(options);
  const Generator generator(peers, codec, gate, activity);
  auto group = group_spec("g", 8);
  group.options.max_turns = 1;
  std::vector<std::future<std::optional<Trajectory>>> all;
  for (int64_t sample = 0; sample < 8; ++sample)
    all.push_back(std::async(std::launch::async, [&, sample] { return generator.run(group, sample, {}); }));
  const Deadline deadline = Deadline::after(20);
  while (calls < 10 && !deadline.expired()) std::this_thread::yield();  // eight at once at most, then one at a time
  EXPECT_THAT(peers.refused_key(), AllOf(HasSubstr("/generate answered 401: wrong key; the key for it is that of "),
                                         HasSubstr("TRITONFORGE_PEER_API_KEY")));
  mended = true;
  for (auto& one : all) EXPECT_EQ(one.get().value().turns.at(0).status, TurnStatus::kCompleted);
  EXPECT_LT(calls, 13);
  EXPECT_EQ(peers.refused_key(), "");

  options.awaits_key = false;
  mended = false;
  EXPECT_THAT(
      Generator(Peers(options), codec, gate, activity).run(group, 0, {}).value().turns.at(0).verdict.diagnostics,
      HasSubstr("answered 401: wrong key"));
}

TEST_F(GeneratorTest, AStopEndsTheWaitForAKey) {
  mock.engine = [](const Json&) { return net::Response::json({{"error", {{"message", "wrong key"}}}}, 401); };
  PeerOptions options = mock.options();
  options.longest_pause_s = 1000;
  const Peers peers(options);
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] {
    return Generator(peers, codec, gate, activity).run(group_spec("g"), 0, stop.get_token());
  });
  const Deadline deadline = Deadline::after(20);
  while (peers.refused_key().empty() && !deadline.expired()) std::this_thread::yield();
  stop.request_stop();
  EXPECT_FALSE(waiting.get().has_value());
}

TEST_F(GeneratorTest, AnEngineThatRefusesForGoodFailsTheTurnAndSaysWhy) {
  mock.engine = [](const Json&) { return net::Response::error(Error(ErrorKind::kUsage, "prompt too odd")); };
  auto t = run(group_spec("g"));
  ASSERT_EQ(t.turns.size(), 1u);
  t.advantages.assign(1, 0.0);
  EXPECT_EQ(t.turns[0].status, TurnStatus::kFailed);
  EXPECT_EQ(t.turns[0].verdict.fault, Fault::kEngineFailed);
  EXPECT_THAT(t.turns[0].verdict.diagnostics, HasSubstr("prompt too odd"));
  EXPECT_THAT(t.turn_returns, ElementsAre(0.0));
  EXPECT_TRUE(to_train_sequences(t).empty());
}

TEST_F(GeneratorTest, AnEvaluatorThatRefusesForGoodIsAFailureOfOurs) {
  mock.evaluator_status = 400;
  const auto t = run(group_spec("g"));
  ASSERT_EQ(t.turns.size(), 1u);
  EXPECT_EQ(t.turns[0].status, TurnStatus::kFailed);
  EXPECT_EQ(t.turns[0].verdict.fault, Fault::kEvaluatorFailed);
  EXPECT_TRUE(ended_by_failure(t));
  EXPECT_EQ(t.turns[0].reward, 0);
}

TEST_F(GeneratorTest, ACorrectCandidateThatCouldNotBeTimedIsAFailureOfOurs) {
  mock.judge = [](const std::string&) {
    Verdict v = MockPeers::correct();
    v.fault = Fault::kProblemError;
    v.diagnostics = "the problem's own code could not be timed";
    return v;
  };
  const auto t = run(group_spec("g"));
  EXPECT_TRUE(ended_by_failure(t));
  EXPECT_EQ(t.turns.at(0).reward, 0);
}

TEST_F(GeneratorTest, AFailureOfOursLeavesNoReturnBehind) {
  std::atomic<int> calls{0};
  mock.engine = [&](const Json& body) {
    if (++calls == 2) return net::Response::error(Error(ErrorKind::kUsage, "gone"));
    return MockPeers::reply(body, answer_with("x"), "stop");
  };
  const auto t = run(group_spec("g"));
  ASSERT_EQ(t.turns.size(), 2u);
  EXPECT_DOUBLE_EQ(t.turns[0].reward, 0.3);
  EXPECT_TRUE(ended_by_failure(t));
  EXPECT_THAT(t.turn_returns, ElementsAre(0.0, 0.0));
  EXPECT_EQ(t.reward, 0);
}

TEST_F(GeneratorTest, AnAbortedGenerationIsContinuedEachTokenWithItsVersion) {
  const std::string whole = answer_with("x");
  size_t first_prompt = 0;
  uint64_t seed = 0;
  mock.engine = [&](const Json& body) {
    const auto prompt = body["input_ids"].size();
    if (first_prompt == 0) {
      first_prompt = prompt;
      seed = body["sampling_params"]["sampling_seed"];
      return MockPeers::reply(body, whole.substr(0, 10), "abort", 3);
    }
    EXPECT_EQ(prompt, first_prompt + 10);
    EXPECT_EQ(body["sampling_params"]["sampling_seed"], seed);  // noise is of (seed, position): the same tokens follow
    EXPECT_EQ(body["sampling_params"]["max_new_tokens"], 490);
    return MockPeers::reply(body, whole.substr(10), "stop", 4);
  };
  auto group = group_spec("g");
  group.options.max_turns = 1;
  const auto t = run(group);
  EXPECT_EQ(t.turns[0].text, whole);
  EXPECT_EQ(t.turns[0].weight_versions[9], 3);
  EXPECT_EQ(t.turns[0].weight_versions[10], 4);
}

TEST_F(GeneratorTest, RepliesThatContradictThemselvesAreRefused) {
  mock.engine = [](const Json& body) {
    auto reply = MockPeers::reply(body, "abc", "stop");
    Json json = Json::parse(reply.body);
    json["output_ids"] = {1, 2};
    return net::Response::json(json);
  };
  const auto t = run(group_spec("g"));
  EXPECT_EQ(t.turns[0].verdict.fault, Fault::kEngineFailed);
}

TEST_F(GeneratorTest, WhatIsAnsweredAfterAStopIsJudged) {
  std::stop_source stop;
  mock.engine = [&](const Json& body) {
    stop.request_stop();
    return MockPeers::reply(body, answer_with("late"), "stop");
  };
  mock.judge = [](const std::string&) { return MockPeers::correct(); };
  const Peers peers(mock.options());
  const auto trajectory = Generator(peers, codec, gate, activity).run(group_spec("g"), 0, stop.get_token());
  ASSERT_TRUE(trajectory.has_value());
  EXPECT_TRUE(trajectory->turns.at(0).verdict.correct);
}

TEST_F(GeneratorTest, AStopLeavesNothingHalfDone) {
  std::stop_source stop;
  mock.engine = [&](const Json&) {
    stop.request_stop();
    return net::Response::error(Error(ErrorKind::kUnavailable, "down"));
  };
  const Peers peers(mock.options());
  const Generator generator(peers, codec, gate, activity);
  EXPECT_FALSE(generator.run(group_spec("g"), 0, stop.get_token()).has_value());
}

TEST_F(GeneratorTest, AnAnswerThatWaitsForItsTurnAtTheEvaluatorIsJudgedAtAStop) {
  std::stop_source stop;
  mock.engine = [&, answer = mock.engine](const Json& body) {
    stop.request_stop();
    return answer(body);
  };
  GroupSpec group = group_spec("g");
  group.options.max_turns = 1;
  Gate full(1);
  full.enter();
  const Peers peers(mock.options());
  const Generator generator(peers, codec, full, activity);
  auto whole = std::async(std::launch::async, [&] { return generator.run(group, 0, stop.get_token()); });
  EXPECT_EQ(whole.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  full.leave();
  const auto trajectory = whole.get();
  ASSERT_TRUE(trajectory.has_value());
  EXPECT_EQ(trajectory->turns.at(0).status, TurnStatus::kCompleted);
  EXPECT_EQ(mock.judged.size(), 1u);
}

class MemoryKeeper : public TurnKeeper {
 public:
  std::vector<KeptTurn> kept_turns(const std::string&, int64_t) override {
    std::vector<KeptTurn> turns;
    for (const auto& [index, turn] : turns_) turns.push_back(turn);
    return turns;
  }
  void keep_turn(const std::string&, int64_t, int64_t index, const KeptTurn& turn) override {
    if (index == refused) throw Error(ErrorKind::kUnavailable, "the disk is full");
    turns_[index] = turn;
    states.push_back(*this);
  }
  std::vector<MemoryKeeper> states;  // after each call
  int64_t refused = -1;              // a turn that is not kept

 private:
  std::map<int64_t, KeptTurn> turns_;
};

Json without_times(Trajectory trajectory) {
  for (Turn& turn : trajectory.turns) turn.generate_s = turn.evaluate_s = turn.generate_begun = turn.evaluate_begun = 0;
  return to_json(trajectory);
}

TEST_F(GeneratorTest, WhatWasKeptIsNotAskedForAgain) {
  GroupSpec group = group_spec("g");
  group.options.keep_turns = true;
  const Peers peers(mock.options());
  MemoryKeeper keeper;
  const auto whole = Generator(peers, codec, gate, activity, &keeper).run(group, 0, {});
  ASSERT_EQ(whole->turns.size(), 3u);
  ASSERT_EQ(keeper.states.size(), 6u);  // each turn's answer, and its verdict
  for (size_t kept = 0; kept < 6; ++kept) {
    const int generations = mock.generations, evaluations = mock.evaluations;
    MemoryKeeper after = keeper.states[kept];
    const auto resumed = Generator(peers, codec, gate, activity, &after).run(group, 0, {});
    EXPECT_EQ(without_times(*resumed), without_times(*whole)) << kept;
    EXPECT_EQ(mock.generations - generations, 2 - static_cast<int>(kept / 2)) << kept;
    EXPECT_EQ(mock.evaluations - evaluations, 3 - static_cast<int>((kept + 1) / 2)) << kept;
  }
  group.options.keep_turns = false;
  MemoryKeeper unused;
  Generator(peers, codec, gate, activity, &unused).run(group, 0, {});
  EXPECT_TRUE(unused.states.empty());
}

// A later turn holds the answer of the one before in its prompt, and stands for no earlier one.
TEST_F(GeneratorTest, BehindATurnThatCouldNotBeKeptAllIsMadeAnew) {
  GroupSpec group = group_spec("g");
  group.options.keep_turns = true;
  const Peers peers(mock.options());
  for (int64_t refused = 0; refused < 2; ++refused) {
    MemoryKeeper keeper;
    keeper.refused = refused;
    const auto whole = Generator(peers, codec, gate, activity, &keeper).run(group, 0, {});
    ASSERT_EQ(whole->turns.size(), 3u);
    const int generations = mock.generations;
    const auto resumed = Generator(peers, codec, gate, activity, &keeper).run(group, 0, {});
    EXPECT_EQ(without_times(*resumed), without_times(*whole)) << refused;
    EXPECT_EQ(mock.generations - generations, 3 - refused) << refused;
  }
}

// Judged again after a restart, a turn may be told otherwise; what was kept behind it answers something else.
TEST_F(GeneratorTest, WhatWasKeptBehindAnotherVerdictIsMadeAnew) {
  GroupSpec group = group_spec("g");
  group.options.keep_turns = true;
  const Peers peers(mock.options());
  MemoryKeeper keeper;
  const auto whole = Generator(peers, codec, gate, activity, &keeper).run(group, 0, {});
  ASSERT_EQ(whole->turns.size(), 3u);
  keeper.keep_turn("g", 0, 0, {whole->turns[0], /*judged=*/false});  // the verdict could not be kept
  mock.judge = [](const std::string&) {
    Verdict verdict;
    verdict.fault = Fault::kCompileError;
    verdict.diagnostics = "another one";
    return verdict;
  };
  const auto resumed = Generator(peers, codec, gate, activity, &keeper).run(group, 0, {});
  ASSERT_EQ(resumed->turns.size(), 3u);
  EXPECT_EQ(resumed->turns[0].response_tokens, whole->turns[0].response_tokens);
  std::vector<int64_t> so_far = resumed->turns[0].prompt_tokens;
  so_far.insert(so_far.end(), resumed->turns[0].response_tokens.begin(), resumed->turns[0].response_tokens.end());
  for (const Turn& turn : {resumed->turns[1], resumed->turns[2]}) {
    EXPECT_NE(codec.text(turn.prompt_tokens).find("another one"), std::string::npos);
    EXPECT_TRUE(std::equal(so_far.begin(), so_far.end(), turn.prompt_tokens.begin()));
  }
}

TEST_F(GeneratorTest, AChatServerIsToldTheWholeConversation) {
  GroupSpec group = group_spec("g");
  group.options.chat_model = "some/model";
  group.options.max_turns = 2;
  group.options.sampling.temperature = 0.3;
  PeerOptions options = mock.options();
  options.api_key = "ours";
  options.chat_api_key = "theirs";
  const Peers peers(options);
  const auto t = Generator(peers, *no_chat_codec(), gate, activity).run(group, 0, {});
  ASSERT_EQ(t->turns.size(), 2u);
  EXPECT_THAT(t->turns[0].code, HasSubstr("after 1 messages"));
  EXPECT_THAT(t->turns[1].code, HasSubstr("after 3 messages"));
  EXPECT_TRUE(t->turns[1].response_tokens.empty());
  const Json& second = mock.requests.at(1);
  EXPECT_EQ(second["model"], "some/model");
  EXPECT_EQ(second["temperature"], 0.3);
  EXPECT_EQ(second["max_tokens"], 500);
  EXPECT_EQ(second["messages"][1]["content"], t->turns[0].text);
  EXPECT_EQ(second["messages"][2]["content"], "mismatch: output 0 is wrong");
  EXPECT_FALSE(second.contains("top_k") || second.contains("min_p"));  // OpenAI refuses what it does not know
  EXPECT_EQ(mock.authorization, "Bearer theirs");
}

TEST_F(GeneratorTest, WhatAChatServersReasoningParserTookOutIsKeptAsThoughtsAndNotSentBack) {
  GroupSpec group = group_spec("g");
  group.options.chat_model = "m";
  group.options.router = mock.options().router;
  group.options.max_turns = 2;
  std::vector<Json> asked;
  const auto answering = [&](const Json& message, const char* reason) {
    asked.clear();
    mock.chat = [&, message, reason](const Json& body) {
      asked.push_back(body);
      return net::Response::json({{"choices", {{{"message", message}, {"finish_reason", reason}}}}});
    };
    return run(group);
  };
  const std::string code = "```python\nclass ModelNew: pass\n```", thought = "maybe ```python\nclass ModelNew: 1\n```";
  for (const char* field : {"reasoning_content", "reasoning"}) {
    const auto t = answering({{field, thought}, {"content", "\n\n" + code}}, "stop");
    ASSERT_EQ(t.turns.size(), 2u);
    EXPECT_EQ(t.turns[0].text, "<think>\n" + thought + "\n</think>\n\n" + code);
    EXPECT_EQ(t.turns[0].code, "class ModelNew: pass\n") << "a thought is no answer";
    EXPECT_EQ(asked.at(1)["messages"][1]["content"], code) << field;
  }
  const auto cut = answering({{"reasoning_content", thought}, {"content", nullptr}}, "length");
  EXPECT_EQ(cut.turns.at(0).text, "<think>\n" + thought);
  EXPECT_EQ(cut.turns.at(0).verdict.fault, Fault::kTruncated);
  EXPECT_EQ(asked.at(1)["messages"][1]["content"], "");
}

TEST_F(GeneratorTest, AChatAnswerThatIsNoneOrIsCutSaysSo) {
  GroupSpec group = group_spec("g");
  group.options.chat_model = "m";
  group.options.router = mock.options().router;
  group.options.max_turns = 1;
  const auto answering = [&](const Json& choices) {
    mock.chat = [choices](const Json&) { return net::Response::json({{"choices", choices}}); };
    return run(group).turns.at(0);
  };
  const Turn cut = answering({{{"message", {{"content", "```python\nclass"}}}, {"finish_reason", "length"}}});
  EXPECT_EQ(cut.status, TurnStatus::kTruncated);
  EXPECT_EQ(cut.verdict.fault, Fault::kTruncated);
  EXPECT_EQ(answering({{{"message", {{"content", nullptr}}}, {"finish_reason", "stop"}}}).verdict.fault,
            Fault::kNoCode);
  const Turn none = answering(Json::array());
  EXPECT_EQ(none.status, TurnStatus::kFailed);  // ours, or the server's: not the model's
  EXPECT_THAT(none.verdict.diagnostics, HasSubstr("'choices' is empty"));
}

}  // namespace
}  // namespace tritonforge::rollout
