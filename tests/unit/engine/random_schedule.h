#pragma once
// An engine to which anything may happen between two of its steps: arrivals, aborts, sleeps, new weights, steps without
// memory. What happens follows from seed and step alone, whatever the engine answers, so two engines with different
// options live through the same.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/core.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {

constexpr int64_t kKinds = 24;

// Prompts that begin alike and that do not, that repeat themselves and that do not; every way to draw and to end.
inline Request request_of(int64_t kind) {
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

struct Schedule {
  uint64_t seed = 1;
  int64_t steps = 160;  // then none arrives, until the engine is empty
  bool steps_lack_memory = true;
  std::function<Request(int64_t kind)> request_of = engine::request_of;
};

struct Answer {
  int64_t kind;
  Sample sample;
};
struct Happened {
  int64_t aborts = 0, sleeps = 0, updates = 0, failures = 0;
  std::vector<Answer> answers;  // in the order of arrival
  EngineStats stats;
};

// `same`: weights of the same numbers as the engine's, which every update brings, so that answers stay comparable.
inline Happened live_through(const Schedule& schedule, Core& core, const model::Model& same) {
  constexpr int64_t kWave = 120;  // steps from one to the next; the engine is empty now and then
  Happened happened;
  std::set<std::string> live;
  const auto take = [&](Output part) {
    if (part.finished) live.erase(part.id);
    happened.answers[static_cast<size_t>(std::stoll(part.id))].sample.append(std::move(part.samples.at(0)));
  };
  for (int64_t step = 0; step < schedule.steps || !core.empty(); ++step) {
    Rng rng(Rng::derive(schedule.seed, static_cast<uint64_t>(step)));
    const auto one_in = [&rng](uint64_t n) { return rng.below(n) == 0; };
    const int64_t since_wave = step % kWave;
    uint64_t arrivals = since_wave == 0 ? 4 + rng.below(16) : since_wave < kWave / 2 && one_in(12) ? 1 : 0;
    for (; step < schedule.steps && arrivals > 0; --arrivals) {
      const auto kind = static_cast<int64_t>(rng.below(kKinds));
      Request request = schedule.request_of(kind);
      request.id = std::to_string(happened.answers.size());
      live.insert(request.id);
      happened.answers.push_back({kind, {}});
      request.on_output = take;
      core.admit(std::move(core.arrival(std::move(request)).value()));
    }
    if (core.has_work()) core.step_or_recover();
    if (one_in(30)) {  // one of the last that came, unless it has ended
      const auto id = std::to_string(std::ssize(happened.answers) - 1 - static_cast<int64_t>(rng.below(12)));
      happened.aborts += static_cast<int64_t>(live.count(id));
      core.abort(id, "enough");
    }
    if (one_in(50)) core.flush_cache();
    if (one_in(60)) {
      core.pause();
      EXPECT_FALSE(core.has_work());
      core.resume();
    }
    if (one_in(80) && schedule.steps_lack_memory && core.has_work() && ++happened.failures > 0)
      core.step_out_of_memory("somebody took it");
    const bool sleeps = one_in(40), updates = one_in(60);
    const MemoryParts parts{.cache = one_in(2), .weights = one_in(2)};
    if (sleeps && ++happened.sleeps > 0) core.release_memory(parts);
    if (updates && ++happened.updates > 0) {
      StagedWeights staged;
      const auto targets = core.parts().tensors();
      const auto sources = same.named_parameters();
      for (size_t i = 0; i < targets.size(); ++i) staged.add(targets[i], sources[i].second);
      core.install(staged, -1);
    }
    if (sleeps) core.resume_memory();
  }
  happened.stats = core.stats();
  EXPECT_EQ(happened.stats.kv_tokens_free, happened.stats.kv_tokens_total);
  EXPECT_EQ(happened.stats.ended_samples, std::ssize(happened.answers));
  EXPECT_EQ(happened.stats.failed_steps, 0);
  EXPECT_TRUE(live.empty());
  for (const Answer& answer : happened.answers) EXPECT_TRUE(std::ranges::is_sorted(answer.sample.weight_versions));
  return happened;
}

// What each kind of request says beside all the others, where nothing else happens.
inline std::vector<Sample> said_together(Core& core, Request (*request_of)(int64_t kind)) {
  std::vector<Sample> said(kKinds);
  for (int64_t kind = 0; kind < kKinds; ++kind) {
    Request request = request_of(kind);
    request.id = std::to_string(kind);
    request.on_output = [&said](Output part) { said[std::stoull(part.id)].append(std::move(part.samples.at(0))); };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  while (core.has_work()) core.step();
  return said;
}

// Answers that outgrow a cache of 448 tokens beside each other.
inline Request long_request_of(int64_t kind) {
  Request request = request_of(kind);
  request.sampling.max_new_tokens = 80 + 4 * kind;
  request.sampling.stop_token_ids.clear();
  return request;
}

// What each kind of request says where nothing else happens.
inline std::vector<Sample> said_alone(Core& core, Request (*request_of)(int64_t kind) = engine::request_of) {
  std::vector<Sample> said;
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

// An answer that was aborted is the beginning of the other, and any other the whole of it.
inline void expect_said(const Sample& said, const Sample& wanted, float log_prob_tolerance) {
  ASSERT_LE(said.output_ids.size(), wanted.output_ids.size());
  EXPECT_TRUE(std::equal(said.output_ids.begin(), said.output_ids.end(), wanted.output_ids.begin()));
  if (said.finish != FinishReason::kAbort) {
    EXPECT_EQ(said.output_ids.size(), wanted.output_ids.size());
    EXPECT_EQ(said.finish, wanted.finish);
  }
  for (size_t i = 0; i < said.log_probs.size(); ++i) {
    EXPECT_NEAR(said.log_probs[i], wanted.log_probs[i], log_prob_tolerance) << i;
  }
}

}  // namespace tritonforge::engine
