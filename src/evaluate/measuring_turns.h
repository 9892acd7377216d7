#pragma once
// Those of one process who measure on one device, one after the other, the device held alone all the while: between two
// holds everything that still runs has to end, which takes longer than many a measurement. Thread-safe.
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/device_lock.h"

namespace tritonforge::evaluate {

class MeasuringTurns {
 public:
  // Then the device is let go, so that those who wait to compute on it may have it.
  static constexpr int kMostInARow = 8;
  explicit MeasuringTurns(const std::string& device) : lock_(device) {}

  class Turn {
   public:
    explicit Turn(MeasuringTurns& turns) : turns_(&turns) {}
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_) turns_->end();
    }

   private:
    MeasuringTurns* turns_;
  };
  // Throws kUnavailable where the turn has not come by the deadline, or the device is not free.
  Turn take(Deadline deadline);

 private:
  void end();

  DeviceLock lock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<DeviceLock::Hold> hold_;
  bool taken_ = false;
  int waiting_ = 0, in_a_row_ = 0;
};

}  // namespace tritonforge::evaluate
