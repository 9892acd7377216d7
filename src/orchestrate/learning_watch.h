#pragma once
// Notices a policy that has found what every answer can earn: rewards for parts of the goal (compiling) still come in
// while nothing is correct any more. Seen with a 0.5B model at a rate of 1e-5 (docs/results.md).
#include <deque>
#include <string>

namespace tritonforge::orchestrate {

class LearningWatch {
 public:
  // One RL step's rates. The warning, once an episode; "" where there is none.
  std::string step(double pass_rate, double compile_rate);

 private:
  static constexpr size_t kWindow = 4;
  std::deque<double> passes_, compiles_;  // of the last kWindow steps
  double best_pass_ = 0;                  // highest mean of a full window
  bool warned_ = false;
};

}  // namespace tritonforge::orchestrate
