#pragma once
// Autotuned kernels from the trusted side: which configurations a tuner could choose, as Triton's does, and one replay
// after the other that runs each of them.
#include <map>
#include <string>
#include <vector>

#include "evaluate/judgement.h"
#include "evaluate/plan/plan.h"

namespace tritonforge::evaluate {

class Tunings {
 public:
  Tunings() = default;
  // `compiled`: of each kernel in order for each of `targets`. Triton's tuner passes over what takes more of a device
  // than it has: such a kernel's error is taken out of `compiled`, where it is launched by such configurations alone
  // and others of their tunings are left. `runs`: the target that is replayed; where it is none of `targets`, what is
  // left for any of them is run; all, where there are no targets.
  Tunings(const Plan& plan, const std::vector<std::string>& targets, const std::string& runs,
          std::vector<Compiled>& compiled);
  // That each trial runs.
  const Choice& first() const { return choices_.front(); }
  // In which each configuration is at least once, the first one among them.
  const std::vector<Choice>& choices() const { return choices_; }
  // Of each tuning: those that may be chosen.
  const std::vector<std::vector<int>>& usable() const { return usable_; }
  // "rows (BLOCK 64, num_warps 4)", of each tuning.
  std::string name(const Choice& choice) const;
  std::string name(int tuning, int configuration) const;
  // What is not run, and why; empty where all is.
  const std::string& left_out() const { return left_out_; }

 private:
  std::vector<std::string> kernels_;  // of each tuning
  std::vector<PlanTuning> tunings_;
  std::vector<std::vector<int>> usable_;
  std::vector<Choice> choices_{{}};
  std::string left_out_;
};

}  // namespace tritonforge::evaluate
