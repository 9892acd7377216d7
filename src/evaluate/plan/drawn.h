#pragma once
// A problem whose inputs and expected outputs are made from seeds where plans are replayed, since they are too large to
// be handed from process to process: its get_inputs and its forward as plans, in process P.
//
// What P says is not all that a verdict rests on. P runs the candidate's kernels, and those can reach all of its device
// memory. So the problem's own process makes the same trials from the same seeds with the module itself, and keeps the
// elements at positions that the candidate's side never learns; the trusted side holds P's inputs and expected outputs,
// and the candidate's, against those. P compares every other element.
#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "evaluate/compare.h"
#include "evaluate/plan/plan.h"
#include "evaluate/plan/replay.h"

namespace tritonforge::evaluate {

// compare.h's judgement of an output that stays on its device: a part at a time.
Comparison compare(const at::Tensor& output, const at::Tensor& expected, const Bounds& bounds,
                   const std::string& label);

class DrawnProblem {
 public:
  // `fractions`: kSampled numbers in [0, 2^32); of n elements those at fraction n / 2^32, in logical order.
  DrawnProblem(std::unique_ptr<Replayer> inputs, std::unique_ptr<Replayer> reference, std::vector<int64_t> fractions);
  // Fresh ones, the same for a seed.
  std::vector<at::Tensor> inputs(uint64_t seed);
  // The reference's forward over fresh inputs. Its weights and constants come from this process's host memory each
  // time. The caller wipes `placed`.
  Finished expected(uint64_t seed, uint64_t forward_seed);
  // The elements at the fractions, on the host.
  ReplayedTensor sample(const at::Tensor& tensor) const;
  Replayer& reference() { return *reference_; }

 private:
  std::unique_ptr<Replayer> inputs_, reference_;
  std::vector<int64_t> fractions_;
};

}  // namespace tritonforge::evaluate
