#pragma once
// The candidate's own process calls forward: under Triton's interpreter on the CPU (interpret), or on a GPU (live).
// That its kernels made the outputs is that process's word.
#include "evaluate/runner.h"

namespace tritonforge::evaluate {

class ProcessRunner : public Runner {
 public:
  ProcessRunner(const RunContext& context, const ChildLimits& limits)
      : context_(context), limits_(limits), time_(context.limit_s, context.left) {}
  Loaded load() override;
  Call call(size_t trial, Launches launches) override;
  // Seconds of the last trial with all launches, by our clock: sending, forward, receiving.
  double call_s() const { return call_s_; }

 protected:
  // What is known of the kernels that came with an answer; nothing has been answered yet where `report` is null.
  virtual std::vector<Compiled> compiled(const Report* report) = 0;

  const RunContext& context_;
  ChildLimits limits_;
  OwnTime time_;
  std::optional<Conversation> candidate_;

 private:
  void load(Loaded& loaded);
  void read(Call& call, size_t trial, const std::string& nonce);

  uint64_t asked_ = 0;
  double call_s_ = 0;
};

// Each kernel is lowered for every target.
class InterpretRunner : public ProcessRunner {
 public:
  explicit InterpretRunner(const RunContext& context) : ProcessRunner(context, candidate_limits(context.options)) {}

 protected:
  std::vector<Compiled> compiled(const Report* report) override;
};

// A launch that worked says that the kernel compiles.
class LiveRunner : public ProcessRunner {
 public:
  explicit LiveRunner(const RunContext& context)
      : ProcessRunner(context, on_gpu(candidate_limits(context.options), context.device)) {}
  // For timing, once its trials have passed; what that takes is not the candidate's own time.
  template <typename Work>
  void timed(Work work) {
    time_.paused([&] { work(candidate_->child()); });
  }

 protected:
  std::vector<Compiled> compiled(const Report* report) override;
};

}  // namespace tritonforge::evaluate
