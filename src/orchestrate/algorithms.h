#pragma once
// RL algorithms by name: what `rl.algorithm` stands for. Each is a set of options of a recipe, as the paper has it;
// what the recipe (or --set) says itself comes before.
//   custom                  no options: the defaults, and what the recipe says
//   grpo                    arXiv 2402.03300: group mean and deviation, mean over sequences, KL to the start model
//   dr_grpo                 2503.20783: no deviation, a constant divisor (loss.constant_tokens: the longest answer)
//   rloo                    2402.14740: REINFORCE, each against the mean of the others, sums over sequences
//   reinforce++             2501.03262: no group baseline, advantages normalised over the batch
//   reinforce++_baseline    the same after the group's mean
//   gspo                    2507.18071: ratio and clip of whole sequences
//   cispo                   2506.13585: the weight is clipped, not the gradient
//   dapo                    2503.14476: higher upper clip, mean over tokens, dynamic sampling, overlong penalty
#include <string>
#include <vector>

#include "base/config.h"

namespace tritonforge::orchestrate {

std::vector<std::string> algorithm_names();
// The keys of a recipe that `name` stands for. Throws kUsage naming the nearest.
YAML::Node algorithm_keys(const std::string& name);

}  // namespace tritonforge::orchestrate
