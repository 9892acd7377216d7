// Ten thousand steps under everything that may happen between two of them, with every option on and off: no block is
// lost, and each request says what it says alone.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "engine/core.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

constexpr int64_t kKinds = 24, kSteps = 10000;

// Prompts that begin alike and that do not, that repeat themselves and that do not; every way to draw and to end.
Request request_of(int64_t kind) {
  Request request;
  request.prompt_ids = prompt_of(5 + 3 * (kind % 8), kind % 3);
  const std::vector<int64_t> once = request.prompt_ids;
  for (int64_t i = 0; i < kind % 4; ++i) request.prompt_ids.insert(request.prompt_ids.end(), once.begin(), once.end());
  request.sampling.max_new_tokens = kind == 0 ? 0 : 1 + (kind * 7) % 50;
  request.sampling.seed = static_cast<uint64_t>(kind);
  request.sampling.temperature = kind % 3 == 0 ? 0 : kind % 3 == 1 ? 1 : 0.3;
  if (kind % 5 == 1) request.sampling.top_p = 0.9;
  if (kind % 6 == 2) request.sampling.stop_token_ids = {3, 50, 77, 120, 121, 122, 123, 124};
  request.stream = kind % 2 == 0;
  return request;
}

std::vector<Sample> alone() {
  std::vector<Sample> said;
  Core core(small_options(), tiny_model(), nullptr);
  for (int64_t kind = 0; kind < kKinds; ++kind) {
    Output whole;
    Request request = request_of(kind);
    request.id = "alone";
    request.on_output = [&whole](Output part) { whole.append(std::move(part)); };
    core.admit(std::move(core.arrival(std::move(request)).value()));
    while (core.has_work()) core.step();
    said.push_back(whole.samples.at(0));
  }
  return said;
}

struct Happened {
  int64_t aborts = 0, sleeps = 0, updates = 0, failures = 0;
  EngineStats stats;
};

// As many steps with the options; everything between two steps follows from the seed.
Happened run(const EngineOptions& options, const std::vector<Sample>& expected, int64_t steps, uint64_t seed) {
  Rng rng(seed);
  Happened happened;
  std::map<std::string, int64_t> kinds;
  std::map<std::string, Output> outputs;
  Core core(options, tiny_model(), nullptr, nullptr, make_late_runner);
  const auto one_in = [&](uint64_t n) { return rng.below(n) == 0; };
  const auto some = [&] {
    auto at = kinds.begin();
    std::advance(at, static_cast<int64_t>(rng.below(kinds.size())));
    return at->first;
  };
  const auto finish = [&](Output part) {
    const std::string id = part.id;
    Output& whole = outputs[id];
    whole.append(std::move(part));
    if (!whole.finished) return;
    const Sample &said = whole.samples[0], &wanted = expected[static_cast<size_t>(kinds.at(id))];
    const bool whole_text = said.finish != FinishReason::kAbort;
    EXPECT_LE(said.output_ids.size(), wanted.output_ids.size());
    EXPECT_TRUE(std::equal(said.output_ids.begin(), said.output_ids.end(), wanted.output_ids.begin())) << id;
    if (whole_text) {
      EXPECT_EQ(said.output_ids.size(), wanted.output_ids.size()) << id;
      EXPECT_EQ(said.finish, wanted.finish) << id;
    }
    for (size_t i = 0; i < said.log_probs.size(); ++i) EXPECT_NEAR(said.log_probs[i], wanted.log_probs[i], 1e-4) << id;
    EXPECT_TRUE(std::ranges::is_sorted(said.weight_versions));
    kinds.erase(id);
    outputs.erase(id);
  };
  int64_t next = 0;
  for (int64_t step = 0; step < steps || !core.empty(); ++step) {
    // Waves, and some in between: the engine is empty now and then.
    uint64_t arrivals = step >= steps ? 0 : kinds.empty() ? 1 + rng.below(20) : one_in(15) ? 1 : 0;
    for (; arrivals > 0; --arrivals) {
      Request request = request_of(static_cast<int64_t>(rng.below(kKinds)));
      request.id = std::to_string(next++);
      kinds[request.id] = static_cast<int64_t>(*request.sampling.seed);
      request.on_output = finish;
      core.admit(std::move(core.arrival(std::move(request)).value()));
    }
    core.step_or_recover();
    if (one_in(40) && !kinds.empty() && ++happened.aborts > 0) core.abort(some(), "enough");
    if (one_in(50)) core.flush_cache();
    if (one_in(60)) {
      core.pause();
      EXPECT_FALSE(core.has_work());
      core.resume();
    }
    if (one_in(80) && ++happened.failures > 0) core.step_out_of_memory("somebody took it");
    const bool sleeps = one_in(40), updates = one_in(60);
    const MemoryParts parts{.cache = one_in(2), .weights = one_in(2)};
    if (sleeps && ++happened.sleeps > 0) core.release_memory(parts);
    if (updates && ++happened.updates > 0) {  // of the same numbers: what is said stays comparable
      const auto same = tiny_model();
      StagedWeights staged;
      const auto targets = core.model().named_parameters(), sources = same->named_parameters();
      for (size_t i = 0; i < targets.size(); ++i) staged.copies.emplace_back(targets[i].second, sources[i].second);
      core.install(staged, -1);
    }
    if (sleeps) core.resume_memory();
  }
  happened.stats = core.stats();
  EXPECT_EQ(happened.stats.kv_tokens_free, happened.stats.kv_tokens_total);
  EXPECT_EQ(happened.stats.ended_samples, next);
  EXPECT_EQ(happened.stats.failed_steps, 0);
  EXPECT_TRUE(kinds.empty());
  return happened;
}

TEST(RandomSchedules, LoseNoBlockAndChangeNoToken) {
  at::set_num_threads(1);
  const auto expected = alone();
  int64_t variants = 0, accepted = 0, cached = 0;
  for (const bool ahead : {false, true}) {
    for (const bool reuse : {false, true}) {
      for (const int64_t drafts : {0, 5}) {
        for (const bool scarce : {false, true}) {
          EngineOptions options = small_options();
          options.step_ahead = ahead;
          options.reuse_prefixes = reuse;
          options.draft_tokens = drafts;
          if (scarce) {
            options.kv_cache_tokens = 256 + 64;
            options.max_step_tokens = 20;
          }
          SCOPED_TRACE(fmt::format("ahead {}, reuse {}, drafts {}, scarce {}", ahead, reuse, drafts, scarce));
          const Happened happened = run(options, expected, kSteps / 16, static_cast<uint64_t>(++variants));
          EXPECT_GT(happened.aborts, 3);
          EXPECT_GT(happened.sleeps, 3);
          EXPECT_GT(happened.updates, 2);
          EXPECT_GT(happened.failures, 1);
          EXPECT_GT(happened.stats.preemptions, 0);
          EXPECT_TRUE(drafts > 0 || happened.stats.accepted_drafts == 0);
          EXPECT_TRUE(reuse || happened.stats.cached_tokens == 0);
          accepted += happened.stats.accepted_drafts;
          cached += happened.stats.cached_tokens;
        }
      }
    }
  }
  EXPECT_EQ(variants, 16);
  EXPECT_GT(accepted, 300);
  EXPECT_GT(cached, 300);
}

}  // namespace
}  // namespace tritonforge::engine
