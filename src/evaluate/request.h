#pragma once
// What an evaluation is asked for: below everything that takes part in it.
#include <cstdint>
#include <string>

#include "contract/rollout.h"
#include "evaluate/options.h"

namespace tritonforge::evaluate {

struct EvaluationRequest : EvaluationOptions {
  EvaluationRequest() { num_correct_trials = 3; }
  std::string problem_id;
  std::string problem_source;  // Model, get_inputs, get_init_inputs
  std::string candidate;       // ModelNew
  uint64_t seed = 42;          // with fresh_seeds, a secret of this process is mixed in
};

}  // namespace tritonforge::evaluate
