#pragma once
// A runner of the CPU that runs ahead as a GPU's does: the tokens of a step are known to it at once, and to the engine
// only when it asks.
#include <deque>

#include "engine/aten_runner.h"
#include "engine/make_runner.h"

namespace tritonforge::engine {

class LateRunner : public Runner {
 public:
  LateRunner(const EngineOptions& options, const Sizes& sizes, const model::Model& model)
      : inner_(options, sizes, model) {}
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

}  // namespace tritonforge::engine
