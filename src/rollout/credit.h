#pragma once
// From turn rewards to advantages, as pure functions. A turn that failed for reasons of ours (no completion, no
// verdict) is not counted: it has no return, takes part in no mean, and its advantage is 0.
//
// Credit (what a turn's tokens are paid for; r_t of counted turns, t from 0):
//   trajectory  every turn: sum_t gamma^t r_t                    (the seed's; gamma 0.4)
//   per_turn    turn t: sum_{i >= t} gamma^(i-t) r_i             (reward-to-go: Kevin, arXiv 2507.11948)
//   best_turn   turn t: max_{i >= t} r_i
// A trajectory's own return is its turn 0's.
//
// Advantages within a group (population standard deviation, as the original has it):
//   grpo        (R - mean) / (std + 1e-6)                        (DeepSeekMath, arXiv 2402.03300)
//   grpo_nostd  R - mean                                         (Dr.GRPO, arXiv 2503.20783)
//   rloo        R - mean of the others                           (arXiv 2402.14740); 0 where there is no other
// With `trajectory` the statistics are over trajectories. With the other two they are over the turns of one index, so
// that a later turn is compared with later turns (rloo then is TRLOO of Dr.Kernel); a turn index that only one
// trajectory reached has no baseline there and is compared with the whole group's turns instead.
#include <string>
#include <vector>

#include "contract/rollout.h"

namespace tritonforge::rollout {

struct TurnReward {
  double reward = 0;
  bool counted = true;
};

// One return a turn; 0 for turns that are not counted.
std::vector<double> turn_returns(const std::vector<TurnReward>& turns, Credit credit, double gamma);

struct TurnReturn {
  double value = 0;
  bool counted = true;
};

struct GroupAdvantages {
  std::vector<std::vector<double>> advantages;  // [trajectory][turn], shaped as the input
  std::string reason;                           // "", "zero_variance" (all 0) or "all_failed" (nothing counted)
};
// `returns`: [trajectory][turn]; groups and trajectories of any size.
GroupAdvantages group_advantages(const std::vector<std::vector<TurnReturn>>& returns, Credit credit,
                                 Advantage advantage);

}  // namespace tritonforge::rollout
