#pragma once
// A runner of the CPU that runs ahead as a GPU's does: the tokens of a step are known to it at once, and to the engine
// only when it asks.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>

#include "engine/aten_runner.h"
#include "engine/core.h"
#include "engine/make_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {

class LateRunner : public Runner {
 public:
  LateRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model)
      : inner_(options, sizes, model) {}
  void move_blocks(std::span<const BlockMove> moves) override { inner_.move_blocks(moves); }
  void fill(const Plan& plan, std::span<const kernels::SampleRow> rows) override {
    std::vector<Sequence*> filled;
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.sequence->pending == 0) continue;
      const int64_t token = queued_.back()[static_cast<size_t>(chunk.sequence->pending_row)].token;
      chunk.sequence->tokens.push_back(token);
      filled.push_back(chunk.sequence);
    }
    inner_.fill(plan, rows);
    for (Sequence* sequence : filled) sequence->tokens.pop_back();
  }
  void ask(const Plan& plan, const LogitWork& work) override { inner_.ask(plan, work); }
  const LogitAnswers& answers() const override { return inner_.answers(); }
  void forward() override {
    inner_.forward();
    const auto drawn = inner_.draw();
    queued_.emplace_back(drawn.begin(), drawn.end());
    most_queued = std::max(most_queued, queued_.size());
  }
  std::span<const kernels::Sampled> draw() override {
    read_ = std::move(queued_.front());
    queued_.pop_front();
    return read_;
  }
  void discard() override {
    inner_.discard();
    queued_.clear();
  }
  bool runs_ahead() const override { return true; }
  void take_memory() override { inner_.take_memory(); }
  void release_memory() override { inner_.release_memory(); }
  bool has_memory() const override { return inner_.has_memory(); }
  size_t most_queued = 0;

 private:
  AtenRunner inner_;
  std::deque<std::vector<kernels::Sampled>> queued_;  // oldest first
  std::vector<kernels::Sampled> read_;
};

inline SizedRunner make_late_runner(const EngineOptions& options, const model::Model& model) {
  SizedRunner made = make_runner(options, model);
  made.runner = std::make_unique<LateRunner>(options, made.sizes, model);
  return made;
}

struct Outcome {
  std::map<std::string, Output> outputs;
  EngineStats stats;
};

// 20 requests, `request_of` their numbers, on a core with this runner until nothing is left to do; every other one
// streams. `meddle`: what is done between two steps.
inline Outcome run_requests(const EngineOptions& options, const std::function<Request(int64_t number)>& request_of,
                            const std::function<void(Core&, int64_t step)>& meddle) {
  constexpr int64_t kRequests = 20;
  at::set_num_threads(1);
  Outcome run;
  Core core(options, tiny_model(), nullptr, nullptr, make_late_runner);
  for (int64_t i = 0; i < kRequests; ++i) {
    Request request = request_of(i);
    request.id = std::to_string(i);
    request.sampling.seed = static_cast<uint64_t>(i);
    request.stream = i % 2 == 0;
    request.on_output = [&run](Output part) {
      const std::string id = part.id;
      run.outputs[id].append(std::move(part));
    };
    core.admit(std::move(core.arrival(std::move(request)).value()));
  }
  for (int64_t step = 0; core.has_work(); ++step) {
    core.step();
    if (meddle) meddle(core, step);
  }
  run.stats = core.stats();
  EXPECT_EQ(run.stats.kv_tokens_free, run.stats.kv_tokens_total);
  EXPECT_EQ(run.stats.ended_samples, kRequests);
  return run;
}

}  // namespace tritonforge::engine
