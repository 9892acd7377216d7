#pragma once
// Turn rewards by name: pure functions of the verdict. speedup is the lower end of the evaluator's interval and exists
// only where the stage is `timed`; where nothing was timed (interpret mode) there is no speed term.
//
//   seed              0.3 compiled + 0.5 correct + 0.2 ln(clip(speedup, kLeastSpeedup, kMostSpeedup)); -0.1 where it
//                     does not compile. The clip is ours: without it a correct kernel below 0.08x earned less than one
//                     that only compiles, and the reward followed noise and doubts (> 10x) without a bound
//   tritonforge_code  0; 0.1 compiled; 0.3 correct instead; + clip(speedup - 1, 0, 2)        (what the original's code
//   ran) kevin             correct: 0.3 + speedup; else 0                                         (arXiv 2507.11948)
//   drkernel_graded   not compiled -0.5, not correct -0.3, correct but not shown faster -0.1, from 1x 0.2, 1.2x 0.4,
//                     1.5x 0.6, 2x 0.8, 3x 1.0                                               (arXiv 2602.05885)
//   staged            a step for every stage passed: 0, extracted 0.05, parsed 0.1, imported 0.15, compiled 0.3,
//                     launched 0.4, correct 0.8, and timed adds 0.2 clip(log2(speedup), -1, 2)
//   expression        anything else that is no plain word: see rollout/expression.h; variables stage (0..7), compiled,
//                     correct, timed, speedup (0 where not timed), flags (doubts and cheats), kernels (own kernels
//                     launched)
//
// Whatever the function, a flagged cheat gets at most what the worst honest failure gets.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/verdict.h"

namespace tritonforge::rollout {

// Speedups that the seed's reward tells apart: correct earns 0.339 to 1.261, whatever the clock says.
inline constexpr double kLeastSpeedup = 0.1, kMostSpeedup = 10;

class Reward {
 public:
  // Throws kUsage: an unknown name with the nearest one, an expression with the column that is wrong, an expression
  // that is not a number for some possible verdict (ln(speedup) where nothing was timed).
  static Reward named(std::string_view name_or_expression);
  double operator()(const Verdict& verdict) const;
  const std::string& name() const { return name_; }

 private:
  Reward(std::string name, std::function<double(const Verdict&)> function);
  std::string name_;
  std::function<double(const Verdict&)> function_;
  double worst_honest_failure_ = 0;
};

std::vector<std::string> reward_names();

// DAPO's soft overlong punishment (arXiv 2503.14476, equation 13): 0 up to longest - cache tokens, then falling to -1
// at `longest`. Added to a turn's reward.
double overlong_penalty(int64_t tokens, int64_t longest, int64_t cache);

}  // namespace tritonforge::rollout
