#pragma once
// Held-out problems every n RL steps, and the best of the models that were measured: without it a run ends with its
// last weights, which can be the collapsed ones. `rl.validation` of a recipe; the problems should not be the bench's,
// of which the best would then have been chosen.
//   validation.jsonl   a line a measurement: step, pass_rate, reward_mean, samples, failed, best (so far)
//   models/best/       the model of the best one
#include <cstdint>
#include <optional>

#include "contract/problem.h"
#include "orchestrate/run_context.h"

namespace tritonforge::orchestrate {

struct ValidationScore {
  int64_t step = 0;
  double pass_rate = 0;
};

class Validation {
 public:
  // Goes on with what the run's folder holds. Throws kUsage where there are no problems.
  explicit Validation(RunContext& run);
  // Whether the weights after `step` are to be measured.
  bool due(int64_t step) const;
  // The engines serve the weights after `step`, where it is due; 0: what RL starts from. Measures them then, and
  // exports them where none were better; a step that was measured before is not again.
  void after_step(int64_t step);
  // models/rl becomes the best one; where that is not the last, the last is models/rl-last.
  void finish();

 private:
  RolloutFigures measure(int64_t step);
  RunContext& run_;
  std::vector<Problem> problems_;
  int64_t measured_ = -1;  // the last step that was
  std::optional<ValidationScore> best_;
};

// The step whose weights RL has left in models/rl, where validation found them better than its last ones.
std::optional<int64_t> earlier_best_step(const RecipeConfig& config, const fs::path& run);

// models/rl becomes what models/best is, and models/rl-last what models/rl was. Whenever this is stopped, models/rl is
// whole: the one or the other.
void put_best_in_place(const fs::path& models);

}  // namespace tritonforge::orchestrate
