#pragma once
// Plan mode of an evaluator: the devices that replay plans, and what is judged on them. Thread-safe.
#include <functional>

#include "evaluate/device_pool.h"
#include "evaluate/means.h"
#include "evaluate/plan/runner.h"

namespace tritonforge::evaluate {

// Whether a GPU that is dying would look like this. What ends while it is recorded, before a kernel of it is compiled,
// has touched none.
bool may_be_the_gpus(const Verdict& verdict);

class PlanMode {
 public:
  // Throws kMachine: some of the GPUs that the options name are not there.
  explicit PlanMode(Means& means);
  // Judges a candidate that is a plan, on a GPU with the look for races behind it, and counts the kernels of what has
  // passed all of it; else why it is none. Throws ProblemFault, kUnavailable, kTimeout.
  std::optional<NotAPlan> judge(const EvaluationRequest& request, const Client& client, Verdict& verdict);
  // Makes the problem's reference on one device, unless it is there. What is wrong with the problem its evaluations
  // say.
  void prepare(const EvaluationRequest& request, const Client& client);
  // Runs `part` on one device after the other until what it left in the verdict stands. Throws DeviceFault, and what
  // `part` throws.
  void on_devices(const Client& client, Verdict& verdict, const std::function<void(Device&, Verdict&)>& part);
  DevicePool& devices() { return devices_; }

 private:
  // What is right, where hardware counters are asked for.
  struct Counting {
    Profiler::Job job;
    GpuReplayers* gpu;
    Deadline overall;  // as of its other work
  };
  std::optional<NotAPlan> on_device(const EvaluationRequest& request, Device& device, const Client& client,
                                    Verdict& verdict, std::optional<Counting>& counting);
  void count(const Counting& counting, const Client& client, Verdict& verdict) const;

  Means& means_;
  std::optional<CpuDevice> beside_gpus_;  // where there are GPUs: it looks for races
  DevicePool devices_;
};

// Replays what is right on a GPU on `cpu`, at sizes that it takes, and puts into the verdict what it sees there. No GPU
// is held meanwhile.
void look_for_races(Means& means, CpuDevice& cpu, const EvaluationRequest& request, const Client& client,
                    Verdict& verdict);

}  // namespace tritonforge::evaluate
