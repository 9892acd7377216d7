#pragma once
// The key=value arguments of KernelBench's scripts (generate_samples, eval_from_generations,
// generate_and_eval_single_sample), so that its command lines work with `tritonforge bench`.
#include <string>

#include "orchestrate/run.h"

namespace tritonforge::cli {

struct BenchTarget {
  orchestrate::RecipeConfig& recipe;
  orchestrate::RunOptions& run;
  std::string& model;
};

// Applies "level=1". Returns what the user should know of an argument that has no meaning here, "" otherwise. Throws
// kUsage: no key=value, an unknown key with the nearest one, a value of the wrong kind, what this program cannot do.
std::string apply_kernelbench_argument(const std::string& argument, BenchTarget target);

}  // namespace tritonforge::cli
