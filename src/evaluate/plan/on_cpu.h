#pragma once
// What the CPU's evaluator of Triton IR sees of a candidate that is right on a GPU, and what a GPU does not show:
// races, waits in vain, accesses out of bounds.
#include <string>

#include "evaluate/runner.h"

namespace tritonforge::evaluate {

struct SeenOnCpu {
  std::string refusal;  // what is wrong with the candidate; empty where nothing was seen
  std::string note;     // what was looked at, or why it could not be
};

// `context`: of the same problem and candidate on a CPU; its kernels are not compiled. A race counts at the
// problem's own sizes, and at reduced ones where the outputs are right in some order of the programs; what else ends a
// replay counts at its own sizes alone, since a kernel may be written for those. Throws kUnavailable.
SeenOnCpu look_on_cpu(RunContext context);

// Into the verdict on what is right on a GPU. What is refused is not correct, and no figure of its time is left.
void take(const SeenOnCpu& seen, Verdict& verdict);

}  // namespace tritonforge::evaluate
