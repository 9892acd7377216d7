#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "base/rng.h"

namespace tritonforge::engine {
namespace {

std::unique_ptr<Sequence> sequence_of(int64_t prompt, int64_t first_token = 0) {
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens.resize(static_cast<size_t>(prompt));
  std::iota(sequence->tokens.begin(), sequence->tokens.end(), first_token);
  sequence->prompt_tokens = prompt;
  return sequence;
}

const Chunk* chunk_of(const Plan& plan, const Sequence& sequence) {
  const auto found = std::ranges::find(plan.chunks, &sequence, &Chunk::sequence);
  return found == plan.chunks.end() ? nullptr : &*found;
}

void finish_step(Scheduler& scheduler, const Plan& plan, int64_t token = 7) {
  scheduler.commit(plan);
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.samples) chunk.sequence->tokens.push_back(token);
  }
}

TEST(Scheduler, ChunksAPromptAndGoesOnDecodingBesideIt) {
  BlockPool pool(100, 4, true);
  Scheduler scheduler({4, 10}, pool);
  const auto small = sequence_of(3), large = sequence_of(25, 100);
  scheduler.add(small.get());
  scheduler.add(large.get());
  const Plan* plan = &scheduler.schedule();
  EXPECT_EQ(chunk_of(*plan, *small)->count, 3);
  EXPECT_TRUE(chunk_of(*plan, *small)->samples);
  EXPECT_EQ(chunk_of(*plan, *large)->count, 7);
  EXPECT_FALSE(chunk_of(*plan, *large)->samples);
  finish_step(scheduler, *plan);
  plan = &scheduler.schedule();
  EXPECT_EQ(chunk_of(*plan, *small)->count, 1);
  EXPECT_EQ(chunk_of(*plan, *large)->count, 9);
  EXPECT_EQ(plan->tokens, 10);
  finish_step(scheduler, *plan);
  plan = &scheduler.schedule();
  EXPECT_EQ(chunk_of(*plan, *large)->count, 9);
  EXPECT_TRUE(chunk_of(*plan, *large)->samples);
}

TEST(Scheduler, SamplesOfOnePromptShareItInTheSameStep) {
  BlockPool pool(100, 4, true);
  Scheduler scheduler({8, 64}, pool);
  std::vector<std::unique_ptr<Sequence>> samples;
  for (int i = 0; i < 8; ++i) scheduler.add(samples.emplace_back(sequence_of(18)).get());
  const Plan& plan = scheduler.schedule();
  ASSERT_EQ(plan.chunks.size(), 8u);
  EXPECT_EQ(plan.chunks[0].count, 18);
  for (int i = 1; i < 8; ++i) {
    EXPECT_EQ(plan.chunks[i].start, 16);
    EXPECT_EQ(samples[i]->cached_tokens, 16);
  }
}

TEST(Scheduler, TheLastTokenIsAlwaysComputed) {
  BlockPool pool(100, 4, true);
  Scheduler scheduler({8, 64}, pool);
  const auto a = sequence_of(16), b = sequence_of(16);
  scheduler.add(a.get());
  scheduler.add(b.get());
  const Plan& plan = scheduler.schedule();
  EXPECT_EQ(plan.chunks[1].start, 12);
  EXPECT_EQ(plan.chunks[1].count, 4);
}

TEST(Scheduler, PreemptsTheNewestAndTheOldestAlwaysAdvances) {
  BlockPool pool(7, 2, false);  // 12 tokens
  Scheduler scheduler({4, 16}, pool);
  const auto old = sequence_of(4), young = sequence_of(4, 50);
  scheduler.add(old.get());
  scheduler.add(young.get());
  int64_t preemptions = 0;
  for (int step = 0; step < 8; ++step) {
    const Plan& plan = scheduler.schedule();
    ASSERT_NE(chunk_of(plan, *old), nullptr) << "step " << step;
    preemptions += plan.preempted;
    finish_step(scheduler, plan);
  }
  EXPECT_EQ(old->tokens.size(), 12u);
  EXPECT_EQ(old->preemptions, 0);
  EXPECT_GT(preemptions, 0);
  scheduler.remove(old.get());
  finish_step(scheduler, scheduler.schedule());
  EXPECT_EQ(young->computed + 1, static_cast<int64_t>(young->tokens.size()));
  scheduler.remove(young.get());
  pool.check();
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST(Scheduler, AdmitsInOrderOfArrival) {
  BlockPool pool(9, 2, false);  // 16 tokens
  Scheduler scheduler({4, 16}, pool);
  const auto first = sequence_of(8), large = sequence_of(12, 50), small = sequence_of(2, 90);
  for (auto* sequence : {first.get(), large.get(), small.get()}) scheduler.add(sequence);
  const Plan& plan = scheduler.schedule();
  EXPECT_NE(chunk_of(plan, *first), nullptr);
  EXPECT_EQ(chunk_of(plan, *large), nullptr);
  EXPECT_EQ(chunk_of(plan, *small), nullptr) << "a small one may not overtake for ever";
  finish_step(scheduler, plan);
  scheduler.remove(first.get());
  const Plan& next = scheduler.schedule();
  EXPECT_NE(chunk_of(next, *large), nullptr);
}

TEST(Scheduler, PromptsOfOneStepShareItsTokens) {
  BlockPool pool(100, 4, false);
  Scheduler scheduler({4, 10}, pool);
  const auto first = sequence_of(15), second = sequence_of(15, 100);
  scheduler.add(first.get());
  scheduler.add(second.get());
  finish_step(scheduler, scheduler.schedule());
  const Plan& plan = scheduler.schedule();
  EXPECT_EQ(chunk_of(plan, *first)->count, 5);
  EXPECT_EQ(chunk_of(plan, *second)->count, 5);
  EXPECT_EQ(plan.tokens, 10);
}

TEST(Scheduler, KeepsBlocksForWhatTheRunningGrowBy) {
  BlockPool pool(9, 2, false);  // 16 tokens
  Scheduler scheduler({4, 32}, pool);
  const auto first = sequence_of(8), leaves_a_block = sequence_of(6, 50), leaves_two = sequence_of(4, 50);
  scheduler.add(first.get());
  scheduler.add(leaves_a_block.get());
  EXPECT_EQ(chunk_of(scheduler.schedule(), *leaves_a_block), nullptr) << "it would soon be put back";
  scheduler.remove(leaves_a_block.get());
  scheduler.add(leaves_two.get());
  EXPECT_NE(chunk_of(scheduler.schedule(), *leaves_two), nullptr);
}

TEST(Scheduler, WhatIsPreemptedStartsOverBeforeWhatWaits) {
  BlockPool pool(100, 4, false);
  Scheduler scheduler({2, 32}, pool);
  const auto a = sequence_of(5), b = sequence_of(5, 50), waits = sequence_of(5, 90);
  for (auto* sequence : {a.get(), b.get(), waits.get()}) scheduler.add(sequence);
  for (int round = 0; round < 2; ++round) {
    const Plan& plan = scheduler.schedule();
    ASSERT_NE(chunk_of(plan, *a), nullptr);
    ASSERT_NE(chunk_of(plan, *b), nullptr);
    EXPECT_EQ(chunk_of(plan, *a)->start, 0);
    EXPECT_EQ(chunk_of(plan, *waits), nullptr) << "two may run";
    finish_step(scheduler, plan);
    scheduler.preempt_all();
    for (const auto* sequence : {a.get(), b.get()}) {
      EXPECT_EQ(sequence->computed, 0);
      EXPECT_TRUE(sequence->blocks.empty());
    }
  }
  EXPECT_EQ(pool.available(), pool.capacity());
}

TEST(Scheduler, ABlockIsPublishedOnceItsLastTokenIsRead) {
  BlockPool pool(100, 4, true);
  Scheduler scheduler({4, 16}, pool);
  const auto sequence = sequence_of(7);
  scheduler.add(sequence.get());
  scheduler.commit(scheduler.schedule());
  EXPECT_EQ(pool.cached(), 1);
  sequence->pending = 1;
  scheduler.commit(scheduler.schedule());
  EXPECT_EQ(pool.cached(), 1) << "nobody knows what it ends with";
  sequence->tokens.push_back(7);  // read, and the next one is drawn
  scheduler.schedule();
  EXPECT_EQ(pool.cached(), 2);
}

TEST(Scheduler, WhatWaitsForItsOwnTokenIsNotBegun) {
  BlockPool pool(100, 4, true);
  Scheduler scheduler({4, 16}, pool);
  const auto sequence = sequence_of(5);
  sequence->pending = 1;
  scheduler.add(sequence.get());
  EXPECT_TRUE(scheduler.schedule().chunks.empty());
  sequence->pending = 0;
  sequence->tokens.push_back(7);
  EXPECT_EQ(chunk_of(scheduler.schedule(), *sequence)->count, 6);
}

// What a client is told of the prefix cache is of its prompt, not of what it has said itself.
TEST(Scheduler, CachedTokensAreThoseOfTheFirstBeginning) {
  BlockPool pool(100, 4, true);
  Scheduler scheduler({4, 16}, pool);
  const auto sequence = sequence_of(9);
  scheduler.add(sequence.get());
  finish_step(scheduler, scheduler.schedule());
  EXPECT_EQ(sequence->cached_tokens, 0);
  scheduler.preempt_all();
  EXPECT_EQ(chunk_of(scheduler.schedule(), *sequence)->start, 8) << "its own prefix";
  EXPECT_EQ(sequence->cached_tokens, 0);
}

// Blocks that are needed for others are taken from the end of what a sequence has left behind.
TEST(Scheduler, TheBeginningOfWhatIsOverIsKeptLongest) {
  BlockPool pool(4, 4, true);
  Scheduler scheduler({4, 16}, pool);
  const auto over = sequence_of(12);
  scheduler.add(over.get());
  finish_step(scheduler, scheduler.schedule());
  scheduler.remove(over.get());
  ASSERT_EQ(pool.cached(), 3);
  pool.allocate();
  EXPECT_EQ(pool.match(over->tokens, 3).blocks.size(), 2u);
}

TEST(Scheduler, MixedCachesAreNotPublished) {
  BlockPool pool(100, 2, true);
  Scheduler scheduler({4, 16}, pool);
  const auto running = sequence_of(3);
  scheduler.add(running.get());
  finish_step(scheduler, scheduler.schedule());
  scheduler.weights_changed();
  for (int step = 0; step < 6; ++step) finish_step(scheduler, scheduler.schedule());
  EXPECT_EQ(pool.cached(), 0);
  auto same = sequence_of(0);
  same->tokens = running->tokens;
  scheduler.add(same.get());
  EXPECT_EQ(chunk_of(scheduler.schedule(), *same)->start, 0);
}

// Until undrain() what is under way comes to its end, preempted ones too, and nothing else is begun.
TEST(Scheduler, DrainingBeginsNoSequence) {
  BlockPool pool(9, 2, false);  // 16 tokens
  Scheduler scheduler({4, 16}, pool);
  const auto old = sequence_of(6), young = sequence_of(6), late = sequence_of(2, 90);
  scheduler.add(old.get());
  scheduler.add(young.get());
  EXPECT_TRUE(scheduler.drained()) << "none has begun";
  finish_step(scheduler, scheduler.schedule());
  scheduler.drain();
  scheduler.add(late.get());
  while (young->preemptions == 0) finish_step(scheduler, scheduler.schedule());
  EXPECT_EQ(late->computed, 0);
  scheduler.remove(old.get());
  EXPECT_FALSE(scheduler.drained()) << "the preempted one was begun";
  finish_step(scheduler, scheduler.schedule());
  EXPECT_GT(young->computed, 0);
  EXPECT_EQ(late->computed, 0);
  scheduler.remove(young.get());
  EXPECT_TRUE(scheduler.drained());
  EXPECT_TRUE(scheduler.idle()) << "a step has nothing to do";
  scheduler.undrain();
  EXPECT_FALSE(scheduler.idle());
  finish_step(scheduler, scheduler.schedule());
  EXPECT_GT(late->computed, 0);
}

// Only new weights mix a cache, only one that was begun before them, and not once it is computed again.
TEST(Scheduler, CachesOfOlderWeightsSaySo) {
  BlockPool pool(9, 2, true);
  Scheduler scheduler({4, 16}, pool);
  const auto running = sequence_of(3), waiting = sequence_of(3, 50);
  scheduler.add(running.get());
  finish_step(scheduler, scheduler.schedule());
  scheduler.forget_prefixes();
  EXPECT_FALSE(running->mixes_weights);
  scheduler.add(waiting.get());
  scheduler.weights_changed();
  EXPECT_TRUE(running->mixes_weights);
  EXPECT_FALSE(waiting->mixes_weights);
  scheduler.preempt_all();
  finish_step(scheduler, scheduler.schedule());
  EXPECT_FALSE(running->mixes_weights);
  EXPECT_FALSE(waiting->mixes_weights);
}

// Many sequences through small pools: every one comes to its end, in bounded steps, and nothing leaks.
TEST(Scheduler, NeverDeadlocks) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const auto block = 1 + static_cast<int64_t>(rng.below(4));
    const int64_t max_context = 24;
    const int64_t blocks = 1 + (max_context + block - 1) / block + static_cast<int64_t>(rng.below(20));
    BlockPool pool(blocks, block, rng.below(2) == 1);
    const auto running = 1 + static_cast<int64_t>(rng.below(6));
    Scheduler scheduler({running, running + static_cast<int64_t>(rng.below(8))}, pool);
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<int64_t> ends;
    size_t done = 0;
    std::vector<Sequence*> alive;
    for (int step = 0; done < 30 || !alive.empty(); ++step) {
      ASSERT_LT(step, 20000);
      if (sequences.size() < 30 && rng.below(3) == 0) {
        auto& added = sequences.emplace_back(
            sequence_of(1 + static_cast<int64_t>(rng.below(15)), static_cast<int64_t>(rng.below(3)) * 100));
        ends.push_back(static_cast<int64_t>(added->tokens.size()) + 1 +
                       static_cast<int64_t>(rng.below(24 - added->tokens.size())));
        alive.push_back(added.get());
        scheduler.add(added.get());
      }
      if (scheduler.idle()) continue;
      const Plan& plan = scheduler.schedule();
      ASSERT_GT(plan.tokens, 0);
      for (const Chunk& chunk : plan.chunks) {
        ASSERT_EQ(chunk.start, chunk.sequence->computed);
        ASSERT_GE(static_cast<int64_t>(chunk.sequence->blocks.size()) * block, chunk.start + chunk.count);
      }
      finish_step(scheduler, plan);
      if (rng.below(40) == 0) scheduler.weights_changed();
      for (size_t i = 0; i < alive.size();) {
        const auto index = static_cast<size_t>(std::ranges::find(sequences, alive[i], &std::unique_ptr<Sequence>::get) -
                                               sequences.begin());
        if (static_cast<int64_t>(alive[i]->tokens.size()) >= ends[index] || rng.below(200) == 0) {
          scheduler.remove(alive[i]);
          alive.erase(alive.begin() + static_cast<long>(i));
          ++done;
        } else {
          ++i;
        }
      }
      pool.check();
    }
    EXPECT_EQ(pool.available(), pool.capacity());
  }
}

}  // namespace
}  // namespace tritonforge::engine
