#pragma once
// Plan mode on a GPU: what PlanRunner recorded and had compiled is run by a replayer there, beside others while it is
// tried, alone while it is timed.
#include "evaluate/plan/gpu_measure.h"
#include "evaluate/plan/runner.h"

namespace tritonforge::evaluate {

class GpuPlanRunner : public PlanRunner {
 public:
  GpuPlanRunner(const RunContext& context, Weights weights, OwnTime& time, const GpuProblem& gpu);
  Call call(size_t trial, Launches launches) override;
  std::optional<Measured> measure() override;

 protected:
  void hand_over() override;
  bool outlives_failures() const override { return false; }  // a fault may have cost the context

 private:
  struct Idle {
    std::set<int> kernels;  // without which the output is the same
    std::string not_tried;  // which were not left out, and why
  };
  Idle idle_kernels();
  double needed() const;
  DeviceLock::Hold share_device();
  void note_copies(const std::vector<bool>& of_launches);
  std::vector<bool> copies() const;  // of the plan's launches
  // Everything that a device shows of the plan: throws Ended and NotTimed.
  void measure(Conversation& replayer, OwnTime& ours, uint64_t seed, Measured& measured);
  std::string why_not_timed(Conversation& replayer, OwnTime& ours, uint64_t seed, Measured& measured);
  // Both: "" or why there is no time.
  std::string show(uint64_t seed, Measured& measured);
  std::string show_again(Measured& measured);
  void in_another_process();
  void leave_out_idle(Measured& measured);

  const GpuProblem& gpu_;
  DeviceLock lock_;
  std::optional<DeviceMemory::Hold> memory_;  // of a drawn problem
  std::set<size_t> copying_;                  // of all steps: launches that left nothing but copies
  std::vector<double> step_ms_;               // of the plan's
  double call_s_ = 0;                         // what the slowest of its trials took
  bool tuned_ = false;                        // the plan's configurations are the fastest
};

}  // namespace tritonforge::evaluate
