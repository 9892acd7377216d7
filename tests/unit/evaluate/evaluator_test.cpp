#include "evaluate/evaluator.h"

#include <gtest/gtest.h>

#include <future>

#include "base/cuda_driver.h"
#include "base/error.h"
#include "evaluate/seeds.h"
#include "unit/evaluate/sample_problem.h"

namespace tritonforge::evaluate {
namespace {

EvaluationRequest request_of(const std::string& forward, double timeout_s) {
  EvaluationRequest request;
  request.problem_source = kProblem;
  request.candidate = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n" + forward;
  request.num_correct_trials = 1;
  request.timeout_s = timeout_s;
  return request;
}

// The only worker is taken for longer than the second candidate may take: it has its own time all the same.
TEST(EvaluatorTest, WaitingForAWorkerCostsTheCandidateNothing) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 60});
  const auto busy = [&] { return evaluator.health().at("busy").get<int>() == 1; };
  auto first = std::async(std::launch::async, [&] {
    return evaluator.evaluate(request_of("        import time\n        time.sleep(600)\n", 16));
  });
  const Deadline started = Deadline::after(60);
  while (!busy()) ASSERT_FALSE(started.expired());
  const Verdict second = evaluator.evaluate(request_of("        return x + 1\n", 15));
  EXPECT_EQ(first.get().fault, Fault::kTimeout);
  // It launches no kernel, which is a cheat; but it was judged, and to its end.
  ASSERT_EQ(second.trials.size(), 1u) << name_of(second.fault) << ": " << second.diagnostics;
  EXPECT_TRUE(second.trials[0].passed);
}

TEST(EvaluatorTest, AProblemThatWasPreparedIsThereForItsFirstCandidate) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 60});
  const auto hits = [&] { return evaluator.health().at("reference_cache_hits").get<int>(); };
  EvaluationRequest problem = request_of("", 60);
  problem.candidate.clear();
  ASSERT_TRUE(evaluator.prepare(problem));
  const Deadline done = Deadline::after(60);
  for (Json now; now.empty() || now.at("busy_seconds") == 0 || now.at("busy") != 0; now = evaluator.health())
    ASSERT_FALSE(done.expired());
  EXPECT_EQ(hits(), 0);
  EXPECT_EQ(evaluator.health().at("evaluated"), 0);
  EXPECT_EQ(evaluator.evaluate(request_of("        return x + 1\n", 60)).trials.size(), 1u);
  EXPECT_EQ(hits(), 1);
  EvaluationRequest other = request_of("        return x + 2\n", 60);
  other.seed = 77;  // other inputs
  evaluator.evaluate(other);
  EXPECT_EQ(hits(), 1);
}

// Its evaluations say what is wrong with it.
TEST(EvaluatorTest, AProblemThatIsNoneDoesNoHarmWhileItIsPrepared) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 60});
  EvaluationRequest broken = request_of("        return x + 1\n", 60);
  broken.problem_source = "class Model";
  EXPECT_TRUE(evaluator.prepare(broken));
  EXPECT_EQ(evaluator.evaluate(broken).fault, Fault::kProblemError);
  EvaluationRequest interpreted = broken;
  interpreted.mode = EvaluationMode::kInterpret;
  EXPECT_FALSE(evaluator.prepare(interpreted));
}

TEST(EvaluatorTest, AClientThatCannotWaitIsToldThatNoWorkerWasFree) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 600});
  std::stop_source left;
  auto first = std::async(std::launch::async, [&] {
    EXPECT_THROW(evaluator.evaluate(request_of("        import time\n        time.sleep(600)\n", 600),
                                    {Deadline::after(600), left.get_token()}),
                 Error);
  });
  const Deadline started = Deadline::after(60);
  while (evaluator.health().at("busy").get<int>() != 1) ASSERT_FALSE(started.expired());
  try {
    evaluator.evaluate(request_of("        return x + 1\n", 60), Deadline::after(0.1));
    ADD_FAILURE() << "a worker was free";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  }
  left.request_stop();
  first.get();
}

TEST(EvaluatorTest, AClientThatHangsUpFreesItsWorkerAndItsPlaceInTheQueue) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 600});
  const auto health = [&](const char* what) { return evaluator.health().at(what).get<int>(); };
  std::stop_source left;
  const auto ask = [&](int seconds) {
    return std::async(std::launch::async, [&, seconds] {
      try {
        evaluator.evaluate(request_of(fmt::format("        import time\n        time.sleep({})\n", seconds), 600),
                           {Deadline::after(600), left.get_token()});
        return ErrorKind::kInternal;
      } catch (const Error& error) {
        return error.kind();
      }
    });
  };
  auto runs = ask(600), waits = ask(601), waits_for_an_equal_one = ask(600);
  const Deadline bound = Deadline::after(60);
  while (health("busy") != 1 || health("waiting") != 2) ASSERT_FALSE(bound.expired());
  left.request_stop();
  for (auto* one : {&runs, &waits, &waits_for_an_equal_one}) EXPECT_EQ(one->get(), ErrorKind::kTimeout);
  EXPECT_EQ(health("busy"), 0);
  EXPECT_EQ(health("abandoned"), 3);
  EXPECT_EQ(health("evaluated"), 0);
}

TEST(EvaluatorTest, EqualCandidatesAtTheSameTimeAreJudgedOnce) {
  Evaluator evaluator({.workers = 4, .candidate_timeout_s = 60});
  std::vector<std::future<Verdict>> verdicts;
  for (int k = 0; k < 4; ++k)
    verdicts.push_back(
        std::async(std::launch::async, [&] { return evaluator.evaluate(request_of("        return x + 1\n", 60)); }));
  int known = 0;
  for (auto& asked : verdicts) {
    const Verdict verdict = asked.get();
    double seconds = 0;
    for (const auto& [part, taken] : verdict.seconds) seconds += taken;
    EXPECT_NEAR(seconds, verdict.wall_s, std::max(0.1, verdict.wall_s / 2));  // a busy machine stops between two parts
    // Each tells of its own time: who was given an equal one's verdict has waited, and recorded nothing.
    const bool was_known = verdict.notes.contains("cache");
    EXPECT_EQ(verdict.seconds.contains("recording"), !was_known);
    known += was_known;
  }
  EXPECT_EQ(known, 3);
  EXPECT_EQ(evaluator.health().at("evaluated"), 1);
}

// The first client's end bounds its problem's reference, too: whoever waits for longer has more time for it.
TEST(EvaluatorTest, WhatAClientsEndCutShortIsNoEqualOnesVerdict) {
  Evaluator evaluator({.workers = 4, .candidate_timeout_s = 60});
  EvaluationRequest request = request_of("        return x + 1\n", 60);
  request.problem_source += "\nimport time\ntime.sleep(3)\n";
  const auto ask = [&](double seconds) {
    return std::async(std::launch::async,
                      [&, seconds] { return evaluator.evaluate(request, Deadline::after(seconds)); });
  };
  auto first = ask(2);
  const Deadline started = Deadline::after(60);
  const auto ended = [&] { return first.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  while (evaluator.health().at("busy").get<int>() != 1 && !ended()) ASSERT_FALSE(started.expired());
  auto longer = ask(60);
  EXPECT_NE(longer.get().fault, Fault::kProblemError);
}

TEST(EvaluatorTest, NobodyKnowsASeedBefore) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 60});
  EvaluationRequest request = request_of("        return x + 1\n", 60);
  const uint64_t known = Seeds(SipKey{}, request.seed).of("inputs", 0);
  EXPECT_NE(evaluator.evaluate(request).trials.at(0).seed, known);
  request.fresh_seeds = false;
  EXPECT_EQ(evaluator.evaluate(request).trials.at(0).seed, known);
}

// The mode is the request's: one that cannot be had is told in a line, and the evaluator goes on with the others.
TEST(EvaluatorTest, AModeIsTheRequestsAndLiveWithoutAGpuIsRefused) {
  Evaluator evaluator({.workers = 1, .candidate_timeout_s = 60});
  EvaluationRequest request = request_of("        return x + 1\n", 60);
  request.mode = EvaluationMode::kInterpret;
  EXPECT_EQ(evaluator.evaluate(request).mode, EvaluationMode::kInterpret);
  request.mode = EvaluationMode::kPlan;
  EXPECT_EQ(evaluator.evaluate(request).mode, EvaluationMode::kPlan);
  request.mode = EvaluationMode::kLive;
  try {
    cuda_driver();
    GTEST_SKIP() << "there is a GPU";
  } catch (const Error&) {}
  try {
    evaluator.evaluate(request);
    ADD_FAILURE() << "it was judged";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_TRUE(std::string(error.what()).starts_with("evaluator: mode 'live' was asked for: no ")) << error.what();
  }
}

}  // namespace
}  // namespace tritonforge::evaluate
