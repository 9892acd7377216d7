#pragma once
// What plans take on a CPU, one after the other on one thread, by the clock of this process.
#include <vector>

#include "evaluate/plan/replay.h"

namespace tritonforge::evaluate {

struct Pace {
  std::vector<double> candidate, reference;  // milliseconds of each call, in pairs
};

struct PaceRequest {
  std::vector<TensorView> inputs;
  uint64_t forward_seed = 0;
  size_t pairs = 100;
  double limit_s = 2;
};

// Each call has fresh copies of inputs, weights and constants, which are no part of its time; memory is not watched.
// Throws as Replayer.
Pace pace(Replayer& candidate, Replayer& reference, const PaceRequest& request);

}  // namespace tritonforge::evaluate
