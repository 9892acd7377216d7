#pragma once
// Turn rewards by name: pure functions of the verdict. speedup is the lower end of the evaluator's interval and exists
// only where the stage is `timed`; where nothing was timed (a CPU) there is no speed term. A speedup whose logarithm is
// within `speed_resolution` of 0 counts as 1: of 260 pairs of a kernel with itself two differ by more than 2 %, and of
// its repeats one in twenty by more than 3 % (docs/results.md, "Times of plan mode"). Advantages are relative to a
// group's spread, so that among answers that are all as fast as PyTorch that noise alone would be what is learned.
//
//   seed              -0.1 where it does not compile, else 0.3 + 0.5 correct
//                     + 0.2 ln(clip(speedup, kLeastSpeedup, kMostSpeedup)).
//                     The clip is ours: without it a correct kernel below 0.08x earned less than one that only
//                     compiles, and the reward followed noise and doubts (> 10x) without a bound.
//   tritonforge_code  What the original's code ran: 0; 0.1 compiled; 0.3 correct instead;
//                     + clip(speedup - 1, 0, 2).
//   kevin             Of arXiv 2507.11948: 0; 0.3 + min(speedup, kMostSpeedup) where it is correct.
//                     The bound is ours: one problem of which PyTorch's own kernel is slow (25.7x was measured) would
//                     outweigh ten others, and what is above 10x is a doubt.
//   drkernel_graded   Of arXiv 2602.05885: not compiled -0.5, not correct -0.3, not shown to be faster -0.1,
//                     faster 0.2, from 1.2x 0.4, 1.5x 0.6, 2x 0.8, 3x 1.0.
//   staged            A step for every stage passed: 0, extracted 0.05, parsed 0.1, imported 0.15, compiled 0.3,
//                     launched 0.4, correct 0.8, and timed adds 0.2 clip(log2(speedup), -1, 2).
//   expression        Anything else that is no plain word (rollout/expression.h), of the variables
//                     stage (0..7), compiled, correct, timed, speedup (0 where not timed), own_share (0 where not
//                     measured), flags (doubts and cheats), kernels (own kernels launched).
//
// Whatever the function, a flagged cheat gets at most what the worst honest failure gets.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/rollout.h"
#include "contract/verdict.h"

namespace tritonforge::rollout {

// Speedups that are told apart: by the seed's reward correct earns 0.339 to 1.261, whatever the clock says.
inline constexpr double kLeastSpeedup = 0.1, kMostSpeedup = 10;

class Reward {
 public:
  // Throws kUsage: an unknown name with the nearest one, an expression with the column that is wrong, an expression
  // that is not a number for some possible verdict (ln(speedup) where nothing was timed).
  static Reward named(std::string_view name_or_expression, double speed_resolution = kSpeedResolution);
  double operator()(const Verdict& verdict) const;
  const std::string& name() const { return name_; }

 private:
  // Of a verdict and its speedup, which is 0 where it was not timed.
  using Function = std::function<double(const Verdict&, double speedup)>;
  Reward(std::string name, Function function, double speed_resolution);
  double speedup_of(const Verdict& verdict) const;
  std::string name_;
  Function function_;
  double speed_resolution_;
  double worst_honest_failure_ = 0;
};

std::vector<std::string> reward_names();

// DAPO's soft overlong punishment (arXiv 2503.14476, equation 13): 0 up to longest - cache tokens, then falling to -1
// at `longest`. Added to a turn's reward.
double overlong_penalty(int64_t tokens, int64_t longest, int64_t cache);

}  // namespace tritonforge::rollout
