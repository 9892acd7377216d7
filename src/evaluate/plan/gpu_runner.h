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
  std::set<int> idle_kernels();
  double needed() const;

  const GpuProblem& gpu_;
  DeviceLock lock_;
  std::optional<DeviceMemory::Hold> memory_;  // of a drawn problem
  std::vector<bool> copied_;                  // of its launches: they left nothing but copies
};

}  // namespace tritonforge::evaluate
