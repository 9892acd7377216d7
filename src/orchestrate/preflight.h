#pragma once
// What can be known of a run before its first process starts: files, devices, names, prompts that fit.
#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

// Throws the first thing that would end the run later: kNotFound (a file or folder that a key names), kUsage (an empty
// set of problems, a prompt that leaves no room for an answer), kMachine (a device that is not there).
void check_plan(const RecipeConfig& config);

}  // namespace tritonforge::orchestrate
