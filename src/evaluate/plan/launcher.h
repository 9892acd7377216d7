#pragma once
// What runs a plan's launches and gives its tensors their memory: the evaluator of Triton IR on a CPU, the driver on a
// GPU. The passes over the steps (pass.h) are the same for both.
#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "evaluate/ir/memory.h"
#include "evaluate/plan/plan.h"
#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {

// How one pass treats launches and memory.
struct PassOptions {
  uint64_t order_seed = 0;                       // of the programs (CPU), of addresses (GPU)
  ir::Schedule schedule = ir::Schedule::kDrawn;  // of the programs on a CPU
  bool weigh = false;                            // what each launch does is compared with what it was given
  bool own_sizes = true;                         // a problem's on a CPU: they were not reduced
  bool guard = true;  // memory is poisoned where it comes empty, and watched for writes beyond its ends
  Deadline deadline = Deadline::after(3600);
};

// What the launches of a pass left to tell.
struct LaunchReport {
  std::vector<ir::Finding> findings;
  Work own;                       // on a CPU, of a weighed pass
  std::vector<bool> only_copied;  // of each launch of a weighed pass: it left nothing but copies of what it was given
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

// What a launch was given, to see afterwards whether it left anything but copies of it.
class Weighing {
 public:
  explicit Weighing(const std::vector<at::Tensor>& bound);
  bool only_copied() const;

 private:
  std::vector<at::Tensor> bound_, before_;
};

}  // namespace tritonforge::evaluate
