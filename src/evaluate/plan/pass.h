#pragma once
// One pass over a plan's steps: values come from inputs, constants and weights, then step after step. The same on every
// device; what differs is behind Launcher.
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "evaluate/plan/aten_step.h"
#include "evaluate/plan/launcher.h"
#include "evaluate/plan/weighing.h"

namespace tritonforge::evaluate {

// What a pass begins with; tensors of the launcher's device.
struct Given {
  std::vector<at::Tensor> inputs, constants;
  std::map<std::string, at::Tensor> weights;  // by the reference's names
};

// A plan with its operations looked up. The plan must outlive it.
class Steps {
 public:
  // Throws kUsage.
  explicit Steps(const Plan& plan);
  const Plan& plan() const { return plan_; }
  const AtenStep* aten(size_t step) const { return operations_[step].get(); }
  // Some step or the outputs look at it. What nobody does may be other than was recorded: of the statistics that
  // native_batch_norm gives beside its output, a device has what it likes.
  bool used(int value) const { return last_use_[static_cast<size_t>(value)] >= 0; }
  // This step, a later one or the outputs do.
  bool used_from(size_t step, size_t value) const { return last_use_[value] >= static_cast<int64_t>(step); }

 private:
  const Plan& plan_;
  std::vector<std::unique_ptr<AtenStep>> operations_;  // null for a launch
  std::vector<int64_t> last_use_;                      // of each value: the last step that looks at it; -1: none
};

class Pass {
 public:
  // Places `given` (it is written into as forward does). Throws kUsage where it is not what was recorded.
  Pass(const Steps& steps, Launcher& launcher, Given given, const PassOptions& options);
  // `launches(kernel)`: whether a kernel is launched or left out. `after(step)` where it is set. Throws ir::Fault (the
  // kernel's, or that the deadline passed), kUsage, kUnsupported.
  void run(const std::function<bool(int)>& launches, const std::function<void(size_t)>& after = {});
  const std::vector<at::Tensor>& inputs() const { return given_.inputs; }
  const std::vector<at::Tensor>& constants() const { return given_.constants; }
  std::vector<at::Tensor> outputs() const;
  // Of each output: the input whose memory it is, or -1.
  std::vector<int> aliases() const;
  // Of each output: an earlier one in whose memory elements of it lie, or -1. -1 for all where what lies so is less
  // than a tenth of their bytes: a last state that is shown in its sequence saves no work to speak of.
  std::vector<int> shared() const;
  // Of a weighed pass, of each launch in order (weighing.h).
  const std::vector<bool>& only_copied() const { return weighing_.only_copied(); }
  // Everything that was placed, to be wiped.
  const std::vector<at::Tensor>& placed() const { return placed_; }

 private:
  void place_given();
  void aten(size_t index);
  void launch(const PlanStep& step);
  void weigh_move(const PlanStep& step);
  void end_run(size_t next);
  at::Tensor place(const at::Tensor& fresh, bool empty);

  const Steps& steps_;
  Launcher& launcher_;
  Given given_;
  PassOptions options_;
  std::vector<at::Tensor> values_, placed_;
  Weighing weighing_;
  std::map<const void*, at::Tensor> owners_;  // storages of this pass; they live as long as it does
};

}  // namespace tritonforge::evaluate
