#pragma once
// `tritonforge bench --generations FOLDER`: judges kernels that somebody else generated.
#include "base/filesystem.h"
#include "orchestrate/recipe.h"

namespace tritonforge::cli {

// `folder` holds KernelBench's files: level_1_problem_19_sample_0_kernel.py. Each that is for one of the recipe's bench
// problems is judged once, by its evaluator. `output` (empty: results/ in the folder) gets what a bench leaves behind
// (orchestrate/bench_results.h); printed is its table, or with `json` its figures. Throws kUsage / kNotFound.
void judge_generations(const orchestrate::RecipeConfig& config, const fs::path& folder, const fs::path& output,
                       bool json);

}  // namespace tritonforge::cli
