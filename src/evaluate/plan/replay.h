#pragma once
// Replays a checked plan on a CPU: aten steps through libtorch's dispatcher, launches through the evaluator of Triton
// IR. Runs in process P, which holds no expected output and runs no candidate code.
#include <memory>
#include <string>
#include <vector>

#include "evaluate/compare.h"
#include "evaluate/ir/memory.h"
#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {

struct ReplayRequest {
  std::vector<TensorView> inputs;
  uint64_t forward_seed = 0;  // torch's generator, as the reference's forward had it
  uint64_t order_seed = 0;    // of the programs
  bool launch = true;         // false: launches are left out, to see whether they matter
  bool weigh = false;         // what each launch does is compared with what it was given, for own_share
  double timeout_s = 60;
};

struct ReplayedTensor {
  Json described;  // {"dtype", "shape", "order", "bytes"}
  std::vector<std::byte> bytes;
};

struct Replay {
  std::vector<ReplayedTensor> inputs, outputs;  // inputs after the call
  std::vector<int> aliases;                     // of each output: the input whose memory it is, or -1
  std::vector<ir::Finding> findings;
  Work own;  // of the launches; of one that is weighed
};

class Replayer {
 public:
  // Compiles the plan's kernels (the IR of `target`). Throws kUsage, kUnsupported naming kernel and operation.
  Replayer(Plan plan, std::map<std::string, TensorView> weights, const std::string& target = "sm_90");
  ~Replayer();
  // Throws ir::Fault (the kernel's), kUsage (an aten call that fails, with its own text), kUnsupported.
  Replay run(const ReplayRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::evaluate
