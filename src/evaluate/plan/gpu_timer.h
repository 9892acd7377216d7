#pragma once
// The clock of plan mode, in process P: one call of a plan at a time, between two events on the one stream there is.
//   before   fresh copies of inputs, constants and weights; lines of the L2 that an earlier call asked to keep are
//            made as others. Then the stream is held until the host has queued every step, so that no gap of the
//            host's is timed (gpu_gate.h; a call that was not queued in time is done again), and the L2 is flushed, by
//            reads: writes would leave it full of lines that are yet to be written back, in a call's time and the
//            later the longer it keeps its own
//   between  the plan's steps
//   after    the outputs are compared on the device (sealed.h), and everything that the call had is wiped, so that no
//            later call finds an answer in memory
#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "evaluate/compare.h"
#include "evaluate/plan/gpu_driver.h"
#include "evaluate/plan/gpu_gate.h"
#include "evaluate/plan/replay.h"
#include "evaluate/plan/sealed.h"

namespace tritonforge::evaluate {

class GpuTimer {
 public:
  // `cubin`: of sealed_words.h's text, its kernel of `sealer`'s shape; outlives this object. Throws as GpuKernel.
  GpuTimer(uint64_t seed, std::span<const std::byte> cubin, const KernelShape& sealer);
  struct Input {
    std::vector<TensorView> inputs, outputs;
    std::vector<Bounds> bounds;  // of each output
    uint64_t forward_seed = 0;
  };
  void add(const Input& input);
  // What was drawn on the device. The caller wipes `outputs`.
  void add(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& outputs, const std::vector<Bounds>& bounds,
           uint64_t forward_seed);
  struct Call {
    double ms = 0;
    bool right = true;  // its outputs
    int late = 0;       // calls that were done again, since the host had not queued them in time
  };
  // `checked`: the outputs are compared. Throws as Pass, ir::Fault where it has not ended after `limit_s`, and kUsage
  // for an input that is not there.
  Call call(Replayer& plan, size_t input, bool checked, double limit_s);
  // Milliseconds of each step, the median of some passes, each of which has `limit_s`. Throws as call.
  std::vector<double> steps(Replayer& plan, size_t input, size_t passes, double limit_s);

 private:
  struct Pooled {
    std::vector<at::Tensor> inputs;
    SealedOutputs outputs;
    uint64_t forward_seed;
  };
  Pass prepare(Replayer& plan, const Pooled& input, Deadline deadline);
  // Queues `run` behind a cold L2; whether all of it was queued before the device came to it.
  bool queue(const std::function<void()>& run);

  uint64_t seed_;
  Sealer sealer_;
  GpuGate gate_;
  std::vector<Pooled> pool_;
  at::Tensor flushed_, flushed_sum_;
  GpuEvent start_, end_;
  double patience_s_;  // that the device has with the host; more for a host that came late
};

}  // namespace tritonforge::evaluate
