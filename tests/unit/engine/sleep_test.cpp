// An engine that sleeps has given its memory back and forgets nothing but what it can compute again.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>

#include "base/rng.h"
#include "engine/core.h"
#include "engine/engine.h"
#include "model/weights.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

class SleepTest : public testing::Test {
 protected:
  static EngineOptions options() {
    EngineOptions options = small_options();
    options.max_step_tokens = 24;
    options.kv_cache_tokens = 320;  // some are preempted
    return options;
  }
  void admit(const std::string& id, int64_t tokens) {
    Request request;
    request.id = id;
    request.prompt_ids = prompt_of(20, std::stoll(id) % 5);
    request.sampling.max_new_tokens = tokens;
    request.sampling.seed = static_cast<uint64_t>(std::stoll(id));
    request.on_output = [this](Output part) {
      const std::string from = part.id;
      outputs[from].append(std::move(part));
    };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  void finish() {
    while (core.has_work()) core.step();
  }
  const Sample& sample(const std::string& id) { return outputs.at(id).samples.at(0); }
  bool weights_are_there() const { return core.model().arena().storage().data() != nullptr; }
  StagedWeights staged_from(const model::Model& other) const {
    StagedWeights staged;
    const auto targets = core.model().named_parameters(), sources = other.named_parameters();
    for (size_t i = 0; i < targets.size(); ++i) staged.copies.emplace_back(targets[i].second, sources[i].second);
    return staged;
  }
  std::map<std::string, Output> outputs;
  Core core{options(), tiny_model(), nullptr, nullptr, make_late_runner};
};

TEST_F(SleepTest, AllOfTheMemoryIsAwayAndTheSameIsSampledAfterwards) {
  at::set_num_threads(1);
  const auto before = model::weight_checksums(core.model());
  admit("1", 40);
  finish();
  core.release_memory();
  EXPECT_FALSE(weights_are_there());
  EXPECT_TRUE(core.stats().weights_released && core.stats().cache_released);
  core.release_memory();  // released already
  admit("6", 40);         // the same prompt
  EXPECT_FALSE(core.has_work());
  core.resume_memory();
  core.resume_memory();
  EXPECT_FALSE(core.stats().memory_released());
  EXPECT_EQ(model::weight_checksums(core.model()), before);
  admit("11", 40);
  finish();
  outputs.erase("6");
  core.release_memory({.cache = true, .weights = false});
  EXPECT_TRUE(weights_are_there());
  EXPECT_TRUE(core.stats().cache_released && !core.stats().weights_released);
  core.resume_memory({.cache = true, .weights = false});
  core.release_memory({.cache = false, .weights = true});
  EXPECT_TRUE(!core.stats().cache_released && core.stats().weights_released);
  core.resume_memory({.cache = true, .weights = false});
  EXPECT_FALSE(weights_are_there()) << "nobody asked for them";
  core.resume_memory({.cache = false, .weights = true});
  const auto first = sample("1").output_ids;
  outputs.clear();
  admit("1", 40);
  finish();
  EXPECT_EQ(sample("1").output_ids, first);
}

// Every part and both, at random steps, with step ahead and preemptions: clients see what an undisturbed run gives.
TEST_F(SleepTest, RequestsUnderWaySurviveIt) {
  at::set_num_threads(1);
  for (int i = 0; i < 14; ++i) admit(std::to_string(i), 20 + i);
  finish();
  const auto undisturbed = std::exchange(outputs, {});
  Rng rng(7);
  int64_t sleeps = 0;
  for (int i = 0; i < 14; ++i) admit(std::to_string(i), 20 + i);
  while (core.has_work()) {
    core.step();
    const MemoryParts parts{.cache = rng.below(2) == 0, .weights = rng.below(2) == 0};
    if (rng.below(3) != 0) continue;
    core.release_memory(parts);
    EXPECT_FALSE(core.has_work() && (parts.cache || parts.weights));
    core.resume_memory(parts);
    ++sleeps;
  }
  EXPECT_GT(sleeps, 5);
  ASSERT_EQ(outputs.size(), undisturbed.size());
  for (const auto& [id, output] : undisturbed) {
    EXPECT_EQ(sample(id).output_ids, output.samples[0].output_ids) << id;
    EXPECT_EQ(sample(id).finish, FinishReason::kLength);
    for (size_t i = 0; i < sample(id).log_probs.size(); ++i)
      EXPECT_NEAR(sample(id).log_probs[i], output.samples[0].log_probs[i], 1e-4) << id;
  }
  EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
}

TEST_F(SleepTest, NewWeightsThatComeMeanwhileAreTheOnesItWakesWith) {
  const auto other = tiny_model(2);
  core.release_memory();
  EXPECT_EQ(core.install(staged_from(*other), 5).checksums, model::weight_checksums(*other));
  EXPECT_FALSE(core.stats().weights_released);
  EXPECT_TRUE(core.stats().cache_released);
  admit("1", 10);
  EXPECT_FALSE(core.has_work());
  core.resume_memory();
  finish();
  EXPECT_EQ(model::weight_checksums(core.model()), model::weight_checksums(*other));
  EXPECT_EQ(sample("1").weight_versions, std::vector<int64_t>(10, 5));
}

TEST_F(SleepTest, APartOfTheWeightsThatComesMeanwhileFindsTheOthers) {
  auto expected = model::weight_checksums(core.model());
  const auto other = tiny_model(2);
  core.release_memory();
  StagedWeights staged = staged_from(*other);
  staged.copies.resize(3);
  staged.part = true;
  const InstalledWeights installed = core.install(staged, -1);
  EXPECT_EQ(installed.version, 0);  // nobody says that it is another
  EXPECT_EQ(installed.checksums.size(), 3u);
  core.resume_memory();
  for (const auto& [name, sum] : installed.checksums) expected[name] = sum;
  EXPECT_EQ(model::weight_checksums(core.model()), expected);
  EXPECT_NE(expected, model::weight_checksums(*other));
  core.install(staged, 7);
  EXPECT_EQ(core.stats().weight_version, 7);
}

TEST_F(SleepTest, AnUpdateThatFailsMeanwhileLeavesTheOldOnes) {
  const auto before = model::weight_checksums(core.model());
  core.release_memory();
  StagedWeights staged = staged_from(*tiny_model(2));
  staged.copies.emplace_back(core.model().final_norm(), at::ones({3}));  // once the others are copied
  EXPECT_ANY_THROW(core.install(staged, 5));
  EXPECT_TRUE(core.stats().weights_released);
  EXPECT_EQ(core.stats().weight_version, 0);
  core.resume_memory();
  EXPECT_EQ(model::weight_checksums(core.model()), before);
}

TEST(Sleep, NobodyReadsWeightsThatAreAway) {
  Engine engine(small_options(), tiny_model(), nullptr);
  const at::Tensor before = engine.weight("model.norm.weight", 5);
  engine.release_memory({.cache = false, .weights = true});
  try {
    engine.weight("model.norm.weight", 5);
    ADD_FAILURE() << "there was something to read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConflict);
  }
  engine.resume_memory();
  EXPECT_TRUE(at::equal(engine.weight("model.norm.weight", 5), before));
}

// Where the device has no memory for the cache, the weights are awake, the rest stays released and may be asked again.
TEST(Sleep, WhatCannotBeTakenAgainStaysReleased) {
  static bool full;
  full = false;
  class FullRunner : public LateRunner {
   public:
    using LateRunner::LateRunner;
    void take_memory() override {
      if (full) throw std::runtime_error("no room\nand a trace");
      LateRunner::take_memory();
    }
  };
  Core core(small_options(), tiny_model(), nullptr, nullptr, [](const EngineOptions& o, const model::Model& model) {
    SizedRunner made = make_runner(o, model);
    made.runner = std::make_unique<FullRunner>(o, made.sizes, model);
    return made;
  });
  core.release_memory();
  full = true;
  try {
    core.resume_memory();
    ADD_FAILURE() << "there was memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMachine);
    EXPECT_STREQ(error.what(), "the KV cache's memory is not free: no room");
  }
  EXPECT_TRUE(core.stats().cache_released && !core.stats().weights_released);
  full = false;
  core.resume_memory();
  EXPECT_FALSE(core.stats().memory_released());
}

}  // namespace
}  // namespace tritonforge::engine
