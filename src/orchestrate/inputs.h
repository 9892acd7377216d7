#pragma once
// The files that a recipe names, read. All throw kNotFound or kUsage with the recipe's key.
#include <vector>

#include "dataset/pair.h"
#include "dataset/problem.h"
#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

std::vector<dataset::Pair> training_pairs(const RecipeConfig& config);  // of the split "train"
// Where data.conversations are: in chat files, or packed, by their stem. Of a folder that `tritonforge data build`
// wrote packed/train, else jsonl/train.jsonl, else parquet/train.parquet, of what its card lists.
struct Conversations {
  fs::path path;
  bool packed = false;
};
Conversations conversations(const RecipeConfig& config);
std::vector<Problem> rl_problems(const RecipeConfig& config);  // of rl.levels
// `rl.validation.limit` of them, the same for every seed of a recipe; where rl.validation.every is set.
std::vector<Problem> validation_problems(const RecipeConfig& config);
// Of bench.levels and bench.problem_ids; `bench.limit` of them, the same for every seed of a recipe.
std::vector<Problem> bench_problems(const RecipeConfig& config);

}  // namespace tritonforge::orchestrate
