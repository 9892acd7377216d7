#pragma once
// Replays a checked plan on a CPU: aten steps through libtorch's dispatcher, launches through the evaluator of Triton
// IR. Runs in process P, which holds no expected output and runs no candidate code.
//
// own_share: how much of the work the candidate's own kernels do. Work of a step = flops / 20 + bytes moved, in the
// unit of a byte: 20 is about what an H100 computes in float32 while it moves one byte (67 TFLOP/s, 3.35 TB/s).
//   launches      flops as the IR's float operations, 2 M N K of a dot, 4 of a transcendental; bytes of all loads and
//   stores aten steps    bytes of all tensors read and written; flops 2 M N K of products and convolutions, else one a
//   result
//                 element; views, shapes and empty memory are free
// own_share = work of launches / work of all steps; 0 where there is none.
#include <memory>
#include <string>
#include <vector>

#include "evaluate/compare.h"
#include "evaluate/ir/memory.h"
#include "evaluate/plan/plan.h"

namespace tritonforge::evaluate {

struct ReplayRequest {
  std::vector<TensorView> inputs;
  uint64_t forward_seed = 0;  // torch's generator, as the reference's forward had it
  uint64_t order_seed = 0;    // of the programs
  bool launch = true;         // false: launches are left out, to see whether they matter
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
  double own_work = 0, aten_work = 0;
  double own_share() const { return own_work > 0 ? own_work / (own_work + aten_work) : 0; }
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
