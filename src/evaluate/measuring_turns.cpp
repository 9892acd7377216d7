#include "evaluate/measuring_turns.h"

#include "base/error.h"

namespace tritonforge::evaluate {

MeasuringTurns::Turn MeasuringTurns::take(Deadline deadline) {
  {
    std::unique_lock lock(mutex_);
    ++waiting_;
    const bool came = changed_.wait_until(lock, deadline.at(), [&] { return !taken_; });
    --waiting_;
    if (!came) fail(ErrorKind::kUnavailable, "no turn to measure came within the time that there was");
    taken_ = true;
  }
  Turn turn(*this);  // the hold is its own from here on
  if (!hold_) hold_.emplace(lock_.exclusive(deadline));
  return turn;
}

void MeasuringTurns::end() {
  {
    const std::lock_guard lock(mutex_);
    if (++in_a_row_ >= kMostInARow || waiting_ == 0) {
      hold_.reset();
      in_a_row_ = 0;
    }
    taken_ = false;
  }
  changed_.notify_one();
}

}  // namespace tritonforge::evaluate
