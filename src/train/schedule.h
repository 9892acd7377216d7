#pragma once
// Learning rates as pure functions of the step.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/config.h"

namespace tritonforge::train {

// The rate of step `step` (the first step is 1). Warm-up rises linearly and reaches lr at step warmup_steps; the
// cosine then falls from lr to min_lr, which it reaches at total_steps and keeps.
inline double learning_rate(const TrainConfig& config, int64_t step) {
  if (step <= config.warmup_steps)
    return config.lr * static_cast<double>(step) / static_cast<double>(config.warmup_steps);
  if (config.schedule == Schedule::kConstant) return config.lr;
  const auto span = static_cast<double>(std::max<int64_t>(1, config.total_steps - config.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - config.warmup_steps) / span);
  return config.min_lr + 0.5 * (config.lr - config.min_lr) * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace tritonforge::train
