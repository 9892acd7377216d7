#pragma once
// `tritonforge run` and `tritonforge bench`: plan, start, watch, and go through the stages.
#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

struct RunOptions {
  fs::path output;  // run folder; "" = runs/NAME-seedN
  bool resume = false;
  bool json = false;  // prints result.json instead of the table
};

// Prints what would be started: processes, devices, memory. Starts nothing.
void print_plan(const RecipeConfig& config);

// Throws Error where the run failed; Ctrl-C stops everything and throws kUnavailable saying how to go on.
void run_recipe(const RecipeConfig& config, const RunOptions& options);

}  // namespace tritonforge::orchestrate
