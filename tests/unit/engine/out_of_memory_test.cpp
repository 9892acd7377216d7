// A step without memory for its intermediates costs time and no request.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>
#include <new>

#include "engine/core.h"
#include "unit/engine/late_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

int64_t most_sequences, most_context, failures;  // of a step that has the memory; how often one had not
bool of_the_gpu;                                 // whose library says so

// Throws at the place asked for, as libtorch's allocator or the own GPU library does.
class ScarceRunner : public LateRunner {
 public:
  using LateRunner::LateRunner;
  void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) override {
    too_large_ = std::ssize(plan.chunks) > most_sequences;
    for (const Chunk& chunk : plan.chunks) too_large_ = too_large_ || chunk.start + chunk.count > most_context;
    LateRunner::fill(plan, rows);
  }
  void forward() override {
    if (too_large_) {
      ++failures;
      if (of_the_gpu) throw gpu::OutOfMemory("GPU: launch: out of memory");
      throw std::bad_alloc();
    }
    LateRunner::forward();
  }

 private:
  bool too_large_ = false;
};

std::map<std::string, Output> run_all(int64_t sequences, int64_t context, bool ahead, EngineStats& stats) {
  at::set_num_threads(1);
  most_sequences = sequences;
  most_context = context;
  failures = 0;
  of_the_gpu = ahead;  // either one may say so
  EngineOptions options = small_options();
  options.step_ahead = ahead;
  std::map<std::string, Output> outputs;
  Core core(options, tiny_model(), nullptr, nullptr, [](const EngineOptions& o, const model::Model& model) {
    SizedRunner made = make_runner(o, model);
    made.runner = std::make_unique<ScarceRunner>(o, made.sizes, model);
    return made;
  });
  const auto admit = [&](int64_t i) {
    Request request;
    request.id = std::to_string(i);
    request.prompt_ids = prompt_of(i == 5 ? 150 : 20 + i, i < 4 ? 1 : i);
    request.sampling.max_new_tokens = 12 + i;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.on_output = [&outputs](Output part) {
      const std::string id = part.id;
      outputs[id].append(std::move(part));
    };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  };
  const auto run = [&] {
    while (core.has_work()) core.step_or_recover();
  };
  for (int64_t i = 0; i < 12; ++i) admit(i);
  run();
  for (int64_t i = 12; i < 14; ++i) admit(i);
  run();
  stats = core.stats();
  EXPECT_TRUE(core.empty());
  EXPECT_EQ(stats.kv_tokens_free, stats.kv_tokens_total);
  return outputs;
}

TEST(OutOfMemory, FewerSequencesAtOnceGiveTheSameTokens) {
  for (const bool ahead : {false, true}) {
    EngineStats stats;
    const auto undisturbed = run_all(100, 1000, ahead, stats);
    EXPECT_EQ(failures, 0);
    for (const int64_t sequences : {1, 3, 7}) {
      const auto scarce = run_all(sequences, 1000, ahead, stats);
      EXPECT_GT(failures, 0);
      EXPECT_LT(failures, 10) << "it does not learn";
      EXPECT_EQ(stats.failed_steps, 0);
      EXPECT_GT(stats.preemptions, 0);
      ASSERT_EQ(scarce.size(), 14u);
      for (const auto& [id, output] : undisturbed) {
        EXPECT_EQ(scarce.at(id).samples[0].output_ids, output.samples[0].output_ids) << id << ", " << sequences;
        EXPECT_EQ(scarce.at(id).samples[0].finish, FinishReason::kLength);
      }
    }
  }
}

TEST(OutOfMemory, ARequestThatDoesNotFitAloneEndsAlone) {
  EngineStats stats;
  const auto outputs = run_all(100, 100, true, stats);
  ASSERT_EQ(outputs.size(), 14u);
  for (const auto& [id, output] : outputs) {
    const Sample& sample = output.samples[0];
    EXPECT_EQ(sample.finish, id == "5" ? FinishReason::kAbort : FinishReason::kLength) << id;
    EXPECT_EQ(sample.abort_message.find("too large for the memory") != std::string::npos, id == "5");
  }
  EXPECT_EQ(stats.failed_steps, 0);
}

}  // namespace
}  // namespace tritonforge::engine
