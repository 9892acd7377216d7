#pragma once
// What runs a plan's launches and gives its tensors their memory: the evaluator of Triton IR on a CPU, the driver on a
// GPU. The passes over the steps (pass.h) are the same for both.
#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "evaluate/ir/machine.h"
#include "evaluate/plan/plan.h"
#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {

// How one pass treats launches and memory.
struct PassOptions {
  uint64_t order_seed = 0;                       // of the programs (CPU), of addresses (GPU)
  ir::Schedule schedule = ir::Schedule::kDrawn;  // of the programs on a CPU
  bool weigh = false;                            // what launches do is compared with what they were given
  bool own_sizes = true;                         // a problem's on a CPU: they were not reduced
  bool guard = true;  // memory is poisoned where it comes empty, and watched for writes beyond its ends
  Deadline deadline = Deadline::after(3600);
};

// What the launches of a pass left to tell.
struct LaunchReport {
  std::vector<ir::Finding> findings;
  std::vector<ir::Work> work;     // of each launch, where the evaluator of Triton IR ran it
  std::vector<bool> only_copied;  // of each launch of a weighed pass (weighing.h)
  Work own() const;               // of a weighed pass that has `work`; else none
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual at::Device device() const = 0;
  virtual void begin(const PassOptions& options) = 0;
  // Memory that a step brought, an input or a weight; `empty`: without contents. May be moved elsewhere.
  virtual at::Tensor place(const at::Tensor& fresh, bool empty) = 0;
  // An aten step wrote into it.
  virtual void written(const at::Tensor& tensor) = 0;
  // `bound`: the tensor of each binding that has one. Throws ir::Fault.
  virtual void launch(const PlanStep& step, const std::vector<at::Tensor>& bound) = 0;
  virtual LaunchReport end() = 0;
};

// Compiles the IR of `target`. Throws kUsage, kUnsupported naming kernel and operation.
std::unique_ptr<Launcher> make_cpu_launcher(const Plan& plan, const std::string& target);

}  // namespace tritonforge::evaluate
