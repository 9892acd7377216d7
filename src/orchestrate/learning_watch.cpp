#include "orchestrate/learning_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tritonforge::orchestrate {

std::string LearningWatch::step(double pass_rate, double compile_rate) {
  const auto mean = [](const std::deque<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  passes_.push_back(pass_rate);
  compiles_.push_back(compile_rate);
  if (passes_.size() > kWindow) {
    passes_.pop_front();
    compiles_.pop_front();
  }
  if (passes_.size() < kWindow) return "";
  const double pass = mean(passes_), compiled = mean(compiles_);
  best_pass_ = std::max(best_pass_, pass);
  // A pass rate that was there and is gone, while most answers still earn something.
  const bool lost = best_pass_ >= 0.1 && pass < 0.1 * best_pass_ && compiled > 0.5;
  if (!lost) warned_ = false;
  if (!lost || warned_) return "";
  warned_ = true;
  return fmt::format(
      "the pass rate of the last {} steps is {:.1f} % (it was {:.1f} %) while {:.0f} % of the answers compile: the "
      "policy may have settled for the "
      "reward of compiling; a lower rl.train.lr or rollout.advantage grpo_nostd helps, and rl.validation keeps the "
      "best "
      "model",
      kWindow, 100 * pass, 100 * best_pass_, 100 * compiled);
}

}  // namespace tritonforge::orchestrate
