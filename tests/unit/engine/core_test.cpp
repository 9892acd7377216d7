#include "engine/core.h"

#include <gtest/gtest.h>

#include <spdlog/sinks/stdout_sinks.h>

#include <cstdio>
#include <map>

#include "base/log.h"
#include "engine/aten_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

// The engine without a thread: every step is this test's own.
class CoreTest : public testing::Test {
 protected:
  void admit(const std::string& id, int64_t prompt, int64_t tokens, bool stream = false,
             const std::string& list_id = "") {
    Request request;
    request.id = id;
    request.list_id = list_id;
    request.prompt_ids = prompt_of(prompt, 1);
    request.sampling.max_new_tokens = tokens;
    request.sampling.seed = 7;
    request.stream = stream;
    request.on_output = [this](Output part) {
      const std::string from = part.id;
      ++parts[from];
      for (const Sample& sample : part.samples) carried[from] += std::ssize(sample.output_ids);
      outputs[from].append(std::move(part));
    };
    auto arrival = core.arrival(std::move(request));
    ASSERT_TRUE(arrival.ok()) << arrival.error().what();
    core.admit(std::move(*arrival));
  }
  EngineOptions options() {
    EngineOptions options = small_options();
    options.max_step_tokens = 16;
    return options;
  }
  std::map<std::string, Output> outputs;
  std::map<std::string, int> parts;
  std::map<std::string, int64_t> carried;  // tokens over all parts
  Core core{options(), tiny_model(), nullptr};
};

TEST_F(CoreTest, AStepIsAPromptsChunkOrOneTokenOfEachSequence) {
  EXPECT_FALSE(core.has_work());
  admit("a", 40, 3, true);
  ASSERT_TRUE(core.has_work());
  core.step();  // 16 of the prompt
  core.step();  // 32
  EXPECT_EQ(core.stats().prompt_tokens, 32);
  EXPECT_TRUE(outputs.empty());
  core.step();  // the rest, and the first token
  EXPECT_EQ(core.stats().prompt_tokens, 39);
  ASSERT_EQ(outputs["a"].samples[0].output_ids.size(), 1u);
  core.step();
  core.step();
  EXPECT_TRUE(outputs["a"].finished);
  EXPECT_EQ(outputs["a"].samples[0].finish, FinishReason::kLength);
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 3u);
  EXPECT_FALSE(core.has_work());
  const EngineStats stats = core.stats();
  EXPECT_EQ(stats.steps, 5);
  EXPECT_EQ(stats.generated_tokens, 3);
  EXPECT_EQ(stats.ended_samples, 1);
  EXPECT_EQ(stats.kv_tokens_free, stats.kv_tokens_total);
  for (const double seconds :
       {stats.stages.plan, stats.stages.fill, stats.stages.forward, stats.stages.draw, stats.stages.deliver}) {
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, stats.step_seconds);
  }
}

// What a stream hands over is what is new: over all parts as many tokens as there are, not their square.
TEST_F(CoreTest, AStreamCarriesEachTokenOnce) {
  admit("stream", 10, 30, true);
  admit("whole", 10, 30, false);
  while (core.has_work()) core.step();
  EXPECT_EQ(parts["stream"], 30);
  EXPECT_EQ(parts["whole"], 1);
  EXPECT_EQ(carried["stream"], 30);
  EXPECT_EQ(outputs["stream"].samples[0].output_ids, outputs["whole"].samples[0].output_ids);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_NEAR(outputs["stream"].samples[0].log_probs[i], outputs["whole"].samples[0].log_probs[i], 1e-4);
  }
  EXPECT_EQ(outputs["stream"].samples[0].weight_versions, std::vector<int64_t>(30, 0));
}

TEST_F(CoreTest, AbortExpiryAndPauseActBetweenSteps) {
  admit("a", 10, 50);
  admit("b", 10, 50);
  core.step();
  core.step();
  core.abort("a", "enough");
  core.abort("nobody", "enough");
  EXPECT_EQ(outputs["a"].samples[0].finish, FinishReason::kAbort);
  EXPECT_EQ(outputs["a"].samples[0].abort_message, "enough");
  EXPECT_GE(outputs["a"].samples[0].output_ids.size(), 1u);
  core.pause();
  EXPECT_FALSE(core.has_work());
  EXPECT_LT(core.first_deadline(), Clock::time_point::max());
  core.expire(core.first_deadline());
  EXPECT_EQ(outputs["b"].samples[0].finish, FinishReason::kAbort);
  EXPECT_TRUE(core.empty());
  EXPECT_EQ(core.first_deadline(), Clock::time_point::max());
  EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
}

TEST_F(CoreTest, RequestsThatAPauseRetractsGiveBackTheirBlocksAndGoOnAsIfItHadNotBeen) {
  admit("undisturbed", 10, 20);
  while (core.has_work()) core.step();
  admit("retracted", 10, 20);
  for (int step = 0; step < 5; ++step) core.step();
  core.pause(PauseMode::kRetract);
  EXPECT_FALSE(core.has_work());
  EXPECT_EQ(core.stats().running, 0);
  EXPECT_EQ(core.stats().waiting, 1);
  EXPECT_EQ(core.stats().kv_tokens_free, core.stats().kv_tokens_total);
  core.flush_cache();
  core.resume();
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["retracted"].samples[0].finish, FinishReason::kLength);
  EXPECT_EQ(outputs["retracted"].samples[0].output_ids, outputs["undisturbed"].samples[0].output_ids);

  admit("aborted", 10, 20);
  core.step();
  core.pause(PauseMode::kAbort);
  EXPECT_EQ(outputs["aborted"].samples[0].finish, FinishReason::kAbort);
  EXPECT_TRUE(core.empty());
}

TEST_F(CoreTest, TheIdOfAListAbortsAllOfIt) {
  admit("a-0", 10, 5, false, "a");
  admit("a-1", 10, 5, false, "a");
  admit("a-2", 10, 5);
  core.abort("a", "enough");
  core.abort("", "enough");
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs["a-0"].samples[0].abort_message, "enough");
  EXPECT_EQ(outputs["a-1"].samples[0].abort_message, "enough");
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["a-2"].samples[0].finish, FinishReason::kLength);
}

TEST_F(CoreTest, AnIdThatRunsIsNotTakenTwice) {
  admit("a", 10, 5);
  admit("a", 10, 5);
  EXPECT_EQ(outputs["a"].samples[0].finish, FinishReason::kAbort);
  EXPECT_NE(outputs["a"].samples[0].abort_message.find("'a'"), std::string::npos);
  outputs.clear();
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["a"].samples[0].output_ids.size(), 5u);
}

TEST_F(CoreTest, AFailedStepAbortsItsRequestsAndTheNextOnesRun) {
  admit("a", 10, 5);
  core.step();
  core.step_failed("out of something\nwith a trace");
  EXPECT_EQ(outputs["a"].samples[0].abort_message, "a step of the engine failed: out of something");
  EXPECT_EQ(core.stats().consecutive_failures, 1);
  EXPECT_EQ(core.stats().prefix_blocks, 0);
  admit("b", 10, 5);
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["b"].samples[0].finish, FinishReason::kLength);
  EXPECT_EQ(core.stats().consecutive_failures, 0);
}

TEST_F(CoreTest, ReleasedMemoryHoldsSequencesUntilItIsBack) {
  admit("undisturbed", 10, 20);
  while (core.has_work()) core.step();
  admit("a", 10, 20);
  core.step();
  core.step();
  core.release_memory();
  EXPECT_FALSE(core.has_work());
  EXPECT_TRUE(core.stats().memory_released());
  core.resume_memory();
  while (core.has_work()) core.step();
  EXPECT_EQ(outputs["a"].samples[0].output_ids, outputs["undisturbed"].samples[0].output_ids);
}

// A device that fails for good, as a CUDA context after an illegal address.
class LostRunner : public AtenRunner {
 public:
  using AtenRunner::AtenRunner;
  void forward() override { throw std::runtime_error("an illegal memory access was encountered\nand more"); }
  void check_device(at::Device) const override { throw std::runtime_error("still"); }
};

TEST(CoreDeathTest, ALostDeviceEndsTheProcessWithOneLine) {
  const auto run = [] {
    std::freopen("/dev/null", "w", stdout);
    Core core(small_options(), tiny_model(), nullptr, nullptr, [](const EngineOptions& options, const model::Model& m) {
      SizedRunner made = make_runner(options, m);
      made.runner = std::make_unique<LostRunner>(options, made.sizes, m);
      return made;
    });
    Request request;
    request.id = "a";
    request.prompt_ids = prompt_of(5, 1);
    core.admit(std::move(core.arrival(std::move(request)).value()));
    spdlog::set_default_logger(spdlog::stderr_logger_mt("engine"));
    core.step_or_recover();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(1),
              "^[^\n]*the engine ends, to be started again: cpu is lost with a step of 1 requests: an illegal memory "
              "access was encountered\n$");
}

}  // namespace
}  // namespace tritonforge::engine
