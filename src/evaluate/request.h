#pragma once
// What an evaluation is asked for, and how an evaluator is set up: below everything that takes part in it.
#include <cstdint>
#include <string>

#include "evaluate/compare.h"

namespace tritonforge::evaluate {

struct EvaluationRequest {
  std::string problem_id;
  std::string problem_source;  // Model, get_inputs, get_init_inputs
  std::string candidate;       // ModelNew
  std::string mode;            // interpret | live; empty: the evaluator's
  std::string backend = "triton";
  uint64_t seed = 42;
  bool fresh_seeds = true;  // mix a secret of this process into the seeds; false: the verdict is reproducible
  int num_correct_trials = 3;
  int num_perf_trials = 100;        // live mode
  bool measure_performance = true;  // live mode
  double timeout_s = 120;           // of the whole evaluation, waiting for a worker included
};

struct EvaluatorOptions {
  std::string mode = "interpret";  // interpret | live
  int workers = 1;
  int max_queue = 256;
  std::string python;            // empty: TRITONFORGE_PYTHON, else the build's
  std::string sandbox = "auto";  // auto: what the machine gives, reported; strict: refuses to start without all of it
  Tolerances tolerances;
  // Sizes that a problem is reduced to. 0: in interpret mode 2^17 elements and 2^27 operations, in live mode as they
  // are.
  int64_t max_elements = 0;
  int64_t max_flops = 0;
  // Import, build and all trials of one candidate; 0: 30, in live mode 120 (it compiles there).
  double candidate_timeout_s = 0;
  uint64_t memory_bytes = uint64_t{3} << 30;  // of one child, above the warm parent's
  size_t verdict_cache = 4096;                // verdicts
  size_t reference_cache = 0;                 // bytes of inputs and expected outputs; 0: 256 MiB, in live mode 8 GiB
};

}  // namespace tritonforge::evaluate
