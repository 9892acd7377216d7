#pragma once
// Replays a checked plan: aten steps through libtorch's dispatcher, launches through a Launcher. Runs in process P,
// which runs no candidate code.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/compare.h"
#include "evaluate/plan/pass.h"
#include "evaluate/plan/tensors.h"

namespace tritonforge::evaluate {

struct ReplayRequest {
  std::vector<TensorView> inputs;
  uint64_t forward_seed = 0;  // torch's generator, as the reference's forward had it
  uint64_t order_seed = 0;    // of the programs on a CPU, of addresses on a GPU
  ir::Schedule schedule = ir::Schedule::kDrawn;
  bool own_sizes = true;  // the problem's: they were not reduced
  bool launch = true;     // false: launches are left out, to see whether they matter
  int without = -1;       // this kernel's alone are
  bool again = false;     // as a second call, which finds the constants as one on the same inputs left them
  bool guard = true;      // memory is watched for writes beyond its ends
  bool weigh = false;     // what each launch does is compared with what it was given, for own_share
  double timeout_s = 60;
};

// What a pass left, where it left it.
struct Finished {
  std::vector<at::Tensor> inputs, outputs;  // inputs after the call
  std::vector<int> aliases;                 // of each output: the input whose memory it is, or -1
  std::vector<int> shared;                  // of each output: Pass::shared()
  std::vector<at::Tensor> constants;        // after the call
  std::vector<at::Tensor> placed;           // everything that the pass had
  LaunchReport report;
};

struct Replay {
  std::vector<ReplayedTensor> inputs, outputs;
  std::vector<int> aliases, shared;
  LaunchReport report;
};

class Replayer {
 public:
  // Weights are views and must outlive this object.
  Replayer(Plan plan, std::map<std::string, TensorView> weights,
           const std::function<std::unique_ptr<Launcher>(const Plan&)>& make_launcher);
  // On the CPU: the IR of `target`. Throws kUsage, kUnsupported naming kernel and operation.
  Replayer(Plan plan, std::map<std::string, TensorView> weights, const std::string& target = "sm_90");
  ~Replayer();
  // Throws ir::Fault (the kernel's), kUsage (an aten call that fails, with its own text), kUnsupported.
  Replay run(const ReplayRequest& request);
  // The same over inputs of the device, which it may write into; `request.inputs` are not looked at.
  Finished run(std::vector<at::Tensor> inputs, const ReplayRequest& request);
  // A pass of its own steps over inputs of the device, which it may write into, fresh copies of weights and
  // `constants`; fresh copies of the plan's where these are none.
  Pass begin(std::vector<at::Tensor> inputs, const PassOptions& options, std::vector<at::Tensor> constants = {});
  // From here on the steps of `choice`; those of the recorder's choice before. Throws kUsage.
  void choose(const Choice& choice);
  // A GPU's copies of constants and weights, from which each pass copies, are made anew from the host's.
  void forget_copies();
  const Plan& plan() const;  // with the steps that are chosen
  Launcher& launcher();

 private:
  struct Impl;
  std::vector<at::Tensor> constants_after(const std::vector<at::Tensor>& inputs, const ReplayRequest& request);
  std::unique_ptr<Impl> impl_;
};

// torch's generators of every device, as torch.manual_seed sets them.
void seed_torch(uint64_t seed, at::Device device);

}  // namespace tritonforge::evaluate
