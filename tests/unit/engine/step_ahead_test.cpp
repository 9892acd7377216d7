// A step is queued before the tokens of the one before are read: nothing that a client sees may change.
#include <gtest/gtest.h>

#include <map>

#include "engine/core.h"
#include "model/weights.h"
#include "tokenizer/tokenizer.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

// 20 requests that end in different ways: by length, by a stop token found late, at the context's end, at once.
Outcome run_all(EngineOptions options, bool ahead, const std::function<void(Core&, int64_t step)>& meddle = nullptr) {
  options.step_ahead = ahead;
  const auto request_of = [](int64_t i) {
    Request request;
    request.prompt_ids = prompt_of(i < 10 ? 40 : 3 + 5 * i, i < 10 ? 1 : i);
    request.sampling.max_new_tokens = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 1000 : 20 + i;
    request.sampling.temperature = i % 4 == 0 ? 0 : 1;
    if (i % 3 == 0) request.sampling.stop_token_ids = {3, 50, 77, 120, 121, 122, 123, 124, 125, 126, 127, 128};
    return request;
  };
  return run_requests(options, request_of, meddle);
}

void expect_same(const Outcome& one, const Outcome& other) {
  ASSERT_EQ(one.outputs.size(), other.outputs.size());
  int stopped = 0;
  for (const auto& [id, output] : one.outputs) {
    const Sample &a = output.samples[0], &b = other.outputs.at(id).samples[0];
    EXPECT_EQ(a.output_ids, b.output_ids) << id;
    EXPECT_EQ(a.finish, b.finish) << id;
    EXPECT_EQ(a.log_probs.size(), b.log_probs.size()) << id;
    EXPECT_EQ(a.weight_versions, b.weight_versions) << id;
    stopped += a.finish == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 2);
  EXPECT_EQ(one.stats.generated_tokens, other.stats.generated_tokens);
}

TEST(StepAhead, ClientsSeeTheSame) {
  EngineOptions options = small_options();
  options.max_running = 24;
  const Outcome plain = run_all(options, false);
  expect_same(plain, run_all(options, true));

  EngineOptions few = options;
  few.max_running = 3;
  expect_same(plain, run_all(few, true));

  EngineOptions chunked = options;
  chunked.max_step_tokens = 24;
  expect_same(plain, run_all(chunked, true));

  EngineOptions scarce = options;  // preempts sequences whose tokens are not read yet
  scarce.kv_cache_tokens = 320;
  const Outcome preempted = run_all(scarce, true);
  EXPECT_GT(preempted.stats.preemptions, 0);
  expect_same(plain, preempted);

  EngineOptions no_reuse = scarce;
  no_reuse.reuse_prefixes = false;
  expect_same(plain, run_all(no_reuse, true));
}

TEST(StepAhead, MemoryCanBeReleasedWithAStepInFlight) {
  const Outcome plain = run_all(small_options(), false);
  expect_same(plain, run_all(small_options(), true, [](Core& core, int64_t step) {
                if (step % 5 != 4) return;
                core.release_memory();
                EXPECT_FALSE(core.has_work());
                core.resume_memory();
              }));
}

// Who asks for penalties takes the step ahead from its neighbours while it is in the batch, not while it waits.
TEST(StepAhead, StaysWhileOneThatReadsLogitsWaits) {
  EngineOptions options = small_options();
  options.max_running = 1;
  Core core(options, tiny_model(), nullptr, nullptr, make_late_runner);
  std::map<std::string, Output> outputs;
  for (const std::string id : {"plain", "penalised"}) {
    Request request;
    request.id = id;
    request.prompt_ids = prompt_of(20, 1);
    request.sampling.max_new_tokens = 6;
    if (id == "penalised") request.sampling.presence_penalty = 1;
    request.stream = true;
    request.on_output = [&outputs](Output part) {
      const std::string from = part.id;
      outputs[from].append(std::move(part));
    };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  for (size_t step = 1; !outputs["plain"].finished; ++step) {
    core.step();
    const auto& samples = outputs["plain"].samples;
    EXPECT_EQ(samples.empty() ? 0 : samples[0].output_ids.size(), step - 1) << "one is in flight";
  }
  for (size_t step = 1; !outputs["penalised"].finished; ++step) {
    core.step();
    EXPECT_EQ(outputs["penalised"].samples[0].output_ids.size(), step);
  }
}

class StepAheadCore : public testing::Test {
 protected:
  void admit(const std::string& id, int64_t tokens) {
    Request request;
    request.id = id;
    request.prompt_ids = prompt_of(20, 1);
    request.sampling.max_new_tokens = tokens;
    request.sampling.seed = 1;
    request.stream = true;
    request.on_output = [this](Output part) {
      const std::string from = part.id;
      outputs[from].append(std::move(part));
    };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  std::map<std::string, Output> outputs;
  Core core{small_options(), tiny_model(), nullptr, nullptr, make_late_runner};
};

TEST_F(StepAheadCore, TokensArriveOneStepLate) {
  admit("a", 3);
  core.step();
  EXPECT_TRUE(outputs.empty());
  core.step();
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 1u);
  core.step();
  core.step();  // nothing left to plan: only reads
  EXPECT_TRUE(outputs["a"].finished);
  EXPECT_FALSE(core.has_work());
  EXPECT_EQ(core.stats().steps, 3);  // and no step beyond the length that was asked for
}

// The draw of an aborted request comes in later and belongs to nobody.
TEST_F(StepAheadCore, AnAbortDropsWhatIsInFlight) {
  admit("a", 50);
  admit("b", 5);
  core.step();
  core.step();
  core.abort("a", "enough");
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 1u);
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 1u);
  EXPECT_EQ(outputs["b"].samples[0].output_ids.size(), 5u);
  EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
}

// What was computed by the old weights is marked so, also where it is read after the request for the new ones.
TEST_F(StepAheadCore, NewWeightsWaitForTheStepInFlight) {
  admit("a", 20);
  for (int i = 0; i < 6; ++i) core.step();
  ASSERT_EQ(outputs["a"].samples[0].output_ids.size(), 5u);
  const auto other = tiny_model(2);
  StagedWeights staged;
  const auto targets = core.model().named_parameters(), sources = other->named_parameters();
  for (size_t i = 0; i < targets.size(); ++i) staged.copies.emplace_back(targets[i].second, sources[i].second);
  EXPECT_EQ(core.install(staged, 4).version, 4);
  EXPECT_EQ(outputs["a"].samples[0].weight_versions, std::vector<int64_t>(6, 0));
  while (core.has_work()) core.step();
  std::vector<int64_t> expected(6, 0);
  expected.resize(20, 4);
  EXPECT_EQ(outputs["a"].samples[0].weight_versions, expected);
}

TEST_F(StepAheadCore, PauseReadsWhatIsInFlight) {
  admit("a", 20);
  core.step();
  core.step();
  core.pause();
  EXPECT_FALSE(core.has_work());
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 2u);
  core.resume();
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 20u);
}

TEST_F(StepAheadCore, AFailureForgetsWhatIsInFlight) {
  admit("a", 20);
  core.step();
  core.step_failed("broken");
  EXPECT_EQ(outputs["a"].samples[0].finish, FinishReason::kAbort);
  EXPECT_FALSE(core.has_work());
  admit("b", 5);
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["b"].samples[0].output_ids.size(), 5u);
}

// An update that waits for the requests under way is not held up by a step that is of none of them any more: at the
// engine's end nobody would read that.
TEST(StepAhead, WhatIsOfNobodyHoldsUpNoUpdate) {
  Core core(small_options(), tiny_model(), nullptr, nullptr, make_late_runner);
  Request request;
  request.id = "r";
  request.prompt_ids = prompt_of(8, 1);
  request.sampling.max_new_tokens = 20;
  core.admit(std::move(core.arrival(std::move(request)).value()));
  core.step();
  core.step();
  core.drain();
  EXPECT_FALSE(core.drained());
  core.abort_all("the engine ends");
  EXPECT_TRUE(core.has_work()) << "no step is in flight";
  EXPECT_TRUE(core.drained());
}

}  // namespace
}  // namespace tritonforge::engine
