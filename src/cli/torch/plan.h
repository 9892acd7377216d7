#pragma once
#include "orchestrate/recipe.h"

namespace tritonforge::cli {

// What `tritonforge plan` and `run --dry-run` print. Throws kUsage where something cannot be or does not fit. `strict`:
// throws, too, what keeps the recipe from running here now, which the plan otherwise names as its last line.
void print_plan(const orchestrate::RecipeConfig& config, bool json, bool strict);

}  // namespace tritonforge::cli
