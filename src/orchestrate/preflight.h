#pragma once
// What can be known of a run before its first process starts: files, devices, names, prompts that fit.
#include <string>
#include <vector>

#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {

// Throws the first thing that would end the run later: kNotFound (a file or folder that a key names), kUsage (an empty
// set of problems, a prompt that leaves no room for an answer), kMachine (a device that is not there).
// Servers that run already are asked: a chat server must answer, an engine need not yet.
void check_plan(const RecipeConfig& config);

// What keeps no run from going on and is likely not what was meant: a line each, naming the key.
std::vector<std::string> doubts(const RecipeConfig& config);
// Of files that check_plan has found to be there: problems that RL trains on and that are measured as held-out ones,
// and files beside problems that somebody may take for some.
std::vector<std::string> doubts_of_problems(const RecipeConfig& config);
void warn_of_problems(const RecipeConfig& config);  // of those doubts

}  // namespace tritonforge::orchestrate
