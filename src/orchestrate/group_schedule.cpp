#include "orchestrate/group_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tritonforge::orchestrate {

GroupSchedule::GroupSchedule(int64_t steps, int64_t per_step, int64_t max_staleness, double over_sampling)
    : steps_(steps), per_step_(per_step), ahead_(max_staleness * per_step) {
  if (over_sampling == 0) return;
  if (over_sampling <= 1)
    fail(ErrorKind::kUsage, "rl.over_sampling: above 1, or 0 for none; {} is neither", over_sampling);
  ahead_ = static_cast<int64_t>(std::ceil((over_sampling - 1) * static_cast<double>(per_step)));
  const int64_t steps_ahead = (ahead_ + per_step - 1) / per_step;
  late_ = max_staleness - steps_ahead;
  if (late_ < 1) {
    fail(ErrorKind::kUsage,
         "rl.over_sampling {}: groups are begun {} steps ahead and may be late by one at least, so rl.max_staleness "
         "must be {} or more, not {}",
         over_sampling, steps_ahead, steps_ahead + 1, max_staleness);
  }
}

int64_t GroupSchedule::submitted(int64_t step) const { return std::min(step * per_step_ + ahead_, steps_ * per_step_); }

GroupRange GroupSchedule::unfinished(int64_t step) const {
  return {std::max<int64_t>(0, step - 1 - late_) * per_step_, submitted(step)};
}

GroupRange GroupSchedule::due(int64_t step) const {
  return {std::max<int64_t>(0, step - 1 - late_) * per_step_, std::max<int64_t>(0, step - late_) * per_step_};
}

}  // namespace tritonforge::orchestrate
