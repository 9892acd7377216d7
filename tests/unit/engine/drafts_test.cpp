// Drafts of what a sequence says next change how many steps it takes, and nothing that a client sees.
#include "engine/drafts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "engine/core.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

using Tokens = std::vector<int64_t>;

Tokens draft(const Tokens& tokens, int64_t count) {
  Tokens drafts{99};
  look_up_drafts(tokens, count, drafts);
  return drafts;
}

TEST(Drafts, AreWhatCameAfterTheSameTokens) {
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 6, 1, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 6, 1, 2, 3}, 0), Tokens{});
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 6, 9, 2, 3}, 2), Tokens{}) << "two tokens are no place";
  EXPECT_EQ(draft({1, 2, 3}, 2), Tokens{});
  EXPECT_EQ(draft({1, 2, 3, 1, 2, 3}, 2), (Tokens{1, 2}));
}

TEST(Drafts, TheLongestMatchCountsThenTheLast) {
  EXPECT_EQ(draft({7, 1, 2, 3, 50, 8, 1, 2, 3, 60, 7, 1, 2, 3}, 1), Tokens{50});
  EXPECT_EQ(draft({7, 1, 2, 3, 50, 7, 1, 2, 3, 60, 7, 1, 2, 3}, 1), Tokens{60});
  Tokens longer(kLongestMatch + 1), tokens;  // agreeing in more than kLongestMatch is no better
  std::iota(longer.begin(), longer.end(), 1);
  tokens = longer;
  tokens.push_back(50);
  tokens.insert(tokens.end(), longer.begin() + 1, longer.end());
  tokens.push_back(60);
  tokens.insert(tokens.end(), longer.begin(), longer.end());
  EXPECT_EQ(draft(tokens, 1), Tokens{60});
}

TEST(Drafts, WhatRunsOutRepeats) {
  EXPECT_EQ(draft({4, 5, 4, 5, 4, 5}, 5), (Tokens{4, 5, 4, 5, 4}));
  EXPECT_EQ(draft({9, 6, 6, 6, 6}, 3), (Tokens{6, 6, 6}));
}

// Rows of max_running that no sequence needs, tokens of the step that no prompt needs, blocks that nobody is about to
// need; never beyond the end.
TEST(Drafts, TakeWhatAStepHasToSpare) {
  const auto planned = [](int64_t running, int64_t max_tokens, int64_t blocks, int64_t max_length, int64_t waiting) {
    BlockPool pool(blocks + 1, 4, false);
    Scheduler scheduler({8, max_tokens, 5}, pool);
    std::vector<std::unique_ptr<Sequence>> sequences;
    for (int64_t i = 0; i < running; ++i) {
      auto& s = sequences.emplace_back(std::make_unique<Sequence>());
      s->tokens = {1, 2, 3, 4, 1, 2};
      s->max_length = max_length;
      scheduler.add(s.get());
    }
    const Plan& first = scheduler.schedule();
    EXPECT_EQ(first.tokens, 6 * running) << "no draft beside a prompt";
    scheduler.commit(first);
    for (auto& s : sequences) s->tokens.push_back(3);
    if (waiting > 0) {
      auto& s = sequences.emplace_back(std::make_unique<Sequence>());
      s->tokens.resize(static_cast<size_t>(waiting));
      scheduler.add(s.get());
    }
    const Plan plan = scheduler.schedule();
    EXPECT_EQ(plan.preempted, 0);
    EXPECT_LE(plan.samples, 8);
    EXPECT_LE(plan.tokens, max_tokens);
    Tokens drafts;
    int64_t tokens = 0, samples = 0;
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.sequence->max_length == max_length) drafts.push_back(chunk.drafts);
      EXPECT_EQ(chunk.drafts, std::ssize(chunk.sequence->drafts));
      EXPECT_LE(chunk.start + chunk.count, std::ssize(chunk.sequence->blocks) * 4);
      tokens += chunk.count;
      samples += chunk.draws();
    }
    EXPECT_EQ(plan.tokens, tokens);
    EXPECT_EQ(plan.samples, samples);
    scheduler.commit(plan);
    EXPECT_EQ(sequences[0]->computed, 7) << "no draft is confirmed yet";
    return drafts;
  };
  EXPECT_EQ(planned(1, 100, 20, 100, 0), (Tokens{5}));
  EXPECT_EQ(planned(3, 100, 20, 100, 0), (Tokens{5, 0, 0}));  // eight rows
  EXPECT_EQ(planned(2, 100, 20, 100, 0), (Tokens{5, 1}));
  EXPECT_EQ(planned(2, 100, 20, 100, 3), (Tokens{5, 0}));  // the new one draws, too
  EXPECT_EQ(planned(1, 10, 20, 100, 7), (Tokens{2}));      // a prompt comes first
  EXPECT_EQ(planned(1, 100, 2, 100, 0), (Tokens{1}));      // its own last place
  EXPECT_EQ(planned(1, 100, 3, 100, 0), (Tokens{1}));      // a free block is kept for what it says
  EXPECT_EQ(planned(1, 100, 20, 10, 0), (Tokens{2}));      // three more tokens end it
  EXPECT_EQ(planned(1, 100, 20, 8, 0), (Tokens{0}));
}

// One token of a prompt, which is all that there are blocks for, is computed as a decode is: a row as any other.
TEST(Drafts, LeaveItsRowToAPromptThatIsOutOfBlocks) {
  BlockPool pool(20, 4, false);
  Scheduler scheduler({2, 11, 3}, pool);
  Sequence talks, waits;
  talks.tokens = {1, 2, 3, 4, 1, 2, 3, 4};
  waits.tokens.resize(12);
  scheduler.add(&talks);
  scheduler.add(&waits);
  scheduler.commit(scheduler.schedule());
  ASSERT_EQ(waits.computed, 3);
  talks.tokens.push_back(1);
  std::vector<int32_t> taken;
  while (pool.available() > 1) taken.push_back(pool.allocate());
  const Plan& plan = scheduler.schedule();
  ASSERT_EQ(plan.chunks.size(), 2u);
  EXPECT_EQ(plan.chunks[1].count, 1);
  EXPECT_FALSE(plan.chunks[1].samples);
  EXPECT_EQ(plan.chunks[0].drafts, 0);
}

// Prompts that repeat themselves; greedy and cold draws, which soon do, too; ends of every kind.
Outcome run_all(EngineOptions options, int64_t drafts,
                const std::function<void(Core&, int64_t step)>& meddle = nullptr) {
  options.draft_tokens = drafts;
  const auto request_of = [](int64_t i) {
    Request request;
    request.prompt_ids = prompt_of(12, i < 10 ? 1 : i);
    for (int64_t t = 0; t < 30 + i; ++t) request.prompt_ids.push_back(request.prompt_ids[static_cast<size_t>(t)]);
    request.sampling.max_new_tokens = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 1000 : 40 + i;
    request.sampling.temperature = i % 4 == 0 ? 0 : i % 4 == 1 ? 1 : 0.2;
    if (i % 3 == 0) request.sampling.stop_token_ids = {3, 50, 77, 120, 121, 122};
    return request;
  };
  return run_requests(options, request_of, meddle);
}

void expect_same(const Outcome& plain, const Outcome& drafted) {
  ASSERT_EQ(plain.outputs.size(), drafted.outputs.size());
  for (const auto& [id, output] : plain.outputs) {
    const Sample &a = output.samples[0], &b = drafted.outputs.at(id).samples[0];
    EXPECT_EQ(a.output_ids, b.output_ids) << id;
    EXPECT_EQ(a.finish, b.finish) << id;
    EXPECT_EQ(a.matched_token, b.matched_token) << id;
    EXPECT_EQ(a.weight_versions, b.weight_versions) << id;
    ASSERT_EQ(a.log_probs.size(), b.log_probs.size()) << id;
    for (size_t i = 0; i < a.log_probs.size(); ++i) EXPECT_NEAR(a.log_probs[i], b.log_probs[i], 1e-4) << id << " " << i;
  }
  EXPECT_EQ(plain.stats.generated_tokens, drafted.stats.generated_tokens);
  EXPECT_EQ(plain.stats.drafted_tokens, 0);
  EXPECT_GT(drafted.stats.accepted_drafts, 0);
  EXPECT_GT(drafted.stats.drafted_tokens, drafted.stats.accepted_drafts) << "none was wrong";
}

TEST(Drafts, ClientsSeeTheSameInFewerSteps) {
  EngineOptions options = small_options();
  options.max_running = 48;
  const Outcome plain = run_all(options, 0);
  for (const int64_t drafts : {1, 4, 16}) {
    const Outcome drafted = run_all(options, drafts);
    expect_same(plain, drafted);
    EXPECT_GT(drafted.stats.accepted_drafts, 50) << drafts;
    EXPECT_LT(drafted.stats.steps, plain.stats.steps) << drafts;
    EXPECT_EQ(drafted.stats.prompt_tokens, plain.stats.prompt_tokens) << "what was confirmed is computed again";
  }
  EngineOptions few = options;
  few.max_running = 3;
  expect_same(plain, run_all(few, 8));
  EngineOptions chunked = options;
  chunked.max_step_tokens = 48;
  expect_same(plain, run_all(chunked, 8));
  EngineOptions scarce = options;
  scarce.kv_cache_tokens = 320;
  const Outcome preempted = run_all(scarce, 8);
  EXPECT_GT(preempted.stats.preemptions, 0);
  expect_same(plain, preempted);
  EngineOptions no_reuse = scarce;
  no_reuse.reuse_prefixes = false;
  expect_same(plain, run_all(no_reuse, 8));
}

TEST(Drafts, SleepAbortsAndFlushesBetweenStepsDoNoHarm) {
  EngineOptions options = small_options();
  options.max_running = 24;
  const auto meddle = [](Core& core, int64_t step) {
    if (step == 9) core.abort("2", "enough");
    if (step % 7 == 3) core.flush_cache();
    if (step % 5 != 4) return;
    core.release_memory();
    core.resume_memory();
  };
  Outcome plain = run_all(options, 0, meddle), drafted = run_all(options, 6, meddle);
  // The aborted one got as far as it came.
  const Tokens a = plain.outputs.at("2").samples[0].output_ids, b = drafted.outputs.at("2").samples[0].output_ids;
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + std::min(std::ssize(a), std::ssize(b)), b.begin()));
  for (Outcome* run : {&plain, &drafted}) {
    run->stats.generated_tokens -= std::ssize(run->outputs.at("2").samples[0].output_ids);
    run->outputs.erase("2");
  }
  expect_same(plain, drafted);
}

}  // namespace
}  // namespace tritonforge::engine
