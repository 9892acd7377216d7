// Ten thousand steps under everything that may happen between two of them, with every option of the CPU on and off: no
// block is lost, and each request says what it says alone. (tests/gpu/schedule_test.cpp: the GPU's.)
#include "unit/engine/random_schedule.h"

#include <ATen/Parallel.h>

#include "unit/engine/late_runner.h"

namespace tritonforge::engine {
namespace {

constexpr int64_t kSteps = 10000;

void expect_no_loss_and_no_change(CacheDtype cache) {
  at::set_num_threads(1);
  EngineOptions plain = small_options();
  plain.kv_cache_dtype = cache;
  Core alone(plain, tiny_model(), nullptr);
  const auto expected = said_alone(alone);
  const auto same = tiny_model();
  constexpr int64_t kVariants = 128;
  Happened sum;
  int64_t accepted = 0, cached = 0, preempted = 0;
  for (int64_t variant = 0; variant < kVariants; ++variant) {
    const auto on = [variant](int bit) { return (variant >> bit & 1) != 0; };
    EngineOptions options = plain;
    options.step_ahead = on(0);
    options.reuse_prefixes = on(1);
    options.draft_tokens = on(2) ? 5 : 0;
    options.pad_batches = on(3);
    options.rows_attention = on(4) && cache == CacheDtype::kAuto;  // ATen's operations know no FP8
    if (on(5)) {
      options.kv_cache_tokens = 256 + 64;
      options.max_step_tokens = 20;
    }
    options.kv_host_tokens = on(1) && on(6) ? 160 : 0;
    SCOPED_TRACE(fmt::format("ahead {}, reuse {}, drafts {}, padded {}, rows {}, scarce {}, host {}", on(0), on(1),
                             on(2), on(3), on(4), on(5), on(6)));
    Core core(options, tiny_model(), nullptr, nullptr, make_late_runner);
    const Schedule schedule{.seed = static_cast<uint64_t>(variant), .steps = kSteps / kVariants + 1};
    const Happened happened = live_through(schedule, core, *same);
    for (size_t i = 0; i < happened.answers.size(); ++i) {
      SCOPED_TRACE(i);
      const auto& [kind, sample] = happened.answers[i];
      expect_said(sample, expected[static_cast<size_t>(kind)], 1e-4);
    }
    EXPECT_TRUE(on(2) || happened.stats.accepted_drafts == 0);
    EXPECT_TRUE(on(1) || happened.stats.cached_tokens == 0);
    sum.aborts += happened.aborts;
    sum.sleeps += happened.sleeps;
    sum.updates += happened.updates;
    sum.failures += happened.failures;
    accepted += happened.stats.accepted_drafts;
    cached += happened.stats.cached_tokens;
    preempted += happened.stats.preemptions;
  }
  EXPECT_GT(sum.aborts, 50);
  EXPECT_GT(sum.sleeps, 100);
  EXPECT_GT(sum.updates, 100);
  EXPECT_GT(sum.failures, 50);
  EXPECT_GT(preempted, 300);
  EXPECT_GT(accepted, 300);
  EXPECT_GT(cached, 300);
}

TEST(RandomSchedules, LoseNoBlockAndChangeNoToken) { expect_no_loss_and_no_change(CacheDtype::kAuto); }
TEST(RandomSchedules, LoseNoBlockAndChangeNoTokenOfAnFp8Cache) { expect_no_loss_and_no_change(CacheDtype::kFp8); }

// Blocks leave for the host and come back. tolerance: of log-probs; a row of FP8 that lies between two numbers may be
// rounded to either.
void expect_no_change_by_the_host(CacheDtype cache, float tolerance) {
  at::set_num_threads(1);
  EngineOptions plain = small_options();
  plain.kv_cache_dtype = cache;
  Core alone(plain, tiny_model(), nullptr);
  const std::vector<Sample> expected = said_alone(alone, long_request_of);
  int64_t came_back = 0;
  for (int64_t variant = 0; variant < 12; ++variant) {
    EngineOptions options = plain;
    options.step_ahead = variant % 2 == 0;
    options.draft_tokens = variant % 4 == 1 ? 5 : 0;
    options.kv_cache_tokens = 448;
    options.kv_host_tokens = variant % 3 == 0 ? 64 : 1024;
    SCOPED_TRACE(variant);
    Core core(options, tiny_model(), nullptr, nullptr, make_late_runner);
    const std::vector<Sample> said = said_together(core, long_request_of);
    for (size_t kind = 0; kind < said.size(); ++kind) expect_said(said[kind], expected[kind], tolerance);
    came_back += core.stats().blocks_from_host;
  }
  EXPECT_GT(came_back, 100);
}

TEST(RandomSchedules, WhatComesBackFromTheHostChangesNoToken) { expect_no_change_by_the_host(CacheDtype::kAuto, 1e-4); }
TEST(RandomSchedules, WhatComesBackFromTheHostInFp8Neither) { expect_no_change_by_the_host(CacheDtype::kFp8, 0.05); }

}  // namespace
}  // namespace tritonforge::engine
