#pragma once
// From turn rewards to advantages, as pure functions. A trajectory that a failure of ours ended (no completion, no
// verdict) has no return: what was still to come is not known. None of its turns is compared, nothing is compared with
// them, and they carry no loss.
//
// Credit (what a turn's tokens are paid for; r_t of turn t, from 0):
//   trajectory  every turn: sum_t gamma^t r_t                    (the seed's; gamma 0.4)
//   per_turn    turn t: sum_{i >= t} gamma^(i-t) r_i             (reward-to-go: Kevin, arXiv 2507.11948)
//   best_turn   turn t: max_{i >= t} r_i
// A trajectory's own return is its turn 0's.
//
// Advantages within a group (population standard deviation, as the original has it):
//   grpo        (R - mean) / (std + 1e-6)                        (DeepSeekMath, arXiv 2402.03300)
//   grpo_nostd  R - mean                                         (Dr.GRPO, arXiv 2503.20783)
//   rloo        R - mean of the others                           (arXiv 2402.14740)
//   none        R; the baseline is the batch's (loss.normalize_advantages: REINFORCE++, arXiv 2501.03262)
// With `trajectory` the statistics are over trajectories. With the other two they are over the turns of one index, so
// that a later turn is compared with later turns (rloo then is TRLOO of Dr.Kernel). Fewer than kEnough returns (all of
// a smaller group) are no sample to compare with: two that are left give +-1 by grpo, whatever lies between them. Such
// turns carry no loss.
#include <string>
#include <vector>

#include "contract/rollout.h"

namespace tritonforge::rollout {

inline constexpr size_t kEnough = 4;

// One return a turn.
std::vector<double> turn_returns(const std::vector<double>& rewards, Credit credit, double gamma);

struct TrajectoryReturns {
  std::vector<double> turns;
  bool known = true;  // false: a failure of ours ended it
};

struct GroupAdvantages {
  std::vector<std::vector<double>> advantages;  // [trajectory][turn], shaped as the input; 0 where not compared
  std::vector<std::vector<bool>> compared;      // the same shape
  // "", or why nothing is learned: "zero_variance" (all 0), "too_few" (nothing to compare with), "all_failed" (no
  // return is known).
  std::string reason;
};
// Groups and trajectories of any size.
GroupAdvantages group_advantages(const std::vector<TrajectoryReturns>& returns, Credit credit, Advantage advantage);

}  // namespace tritonforge::rollout
