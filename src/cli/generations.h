#pragma once
// `tritonforge bench --generations FOLDER`: judges kernels that somebody else generated.
#include "base/filesystem.h"
#include "orchestrate/recipe.h"
#include "orchestrate/run.h"

namespace tritonforge::cli {

// `folder` holds KernelBench's files: level_1_problem_19_sample_0_kernel.py. Each that is for one of the recipe's bench
// problems is judged once, by its evaluator. `output` (empty: results/ in the folder) gets what a bench leaves behind
// (orchestrate/bench_results.h), and each verdict in verdicts.jsonl as it comes, from where `resume` takes it; printed
// is the table, or with `json` the figures. Throws kUsage / kNotFound.
void judge_generations(const orchestrate::RecipeConfig& config, const fs::path& folder,
                       const orchestrate::RunOptions& options);

}  // namespace tritonforge::cli
