#pragma once
// Who replays large tensors on one device of this process's takes turns: what each needs is counted before it begins.
// Thread-safe.
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace tritonforge::evaluate {

class DeviceMemory {
 public:
  explicit DeviceMemory(double bytes) : free_(bytes), all_(bytes) {}

  class Hold {
   public:
    Hold(DeviceMemory& memory, double bytes) : memory_(&memory), bytes_(bytes) {}
    Hold(Hold&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (memory_) memory_->give_back(bytes_);
    }

   private:
    DeviceMemory* memory_;
    double bytes_;
  };
  // Who needs more than there is has it alone. Throws kUnavailable where there is not as much by the deadline.
  Hold take(double bytes, Deadline deadline) {
    bytes = std::min(bytes, all_);
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline.at(), [&] { return free_ >= bytes; }))
      fail(ErrorKind::kUnavailable, "evaluator: {:.1f} GB of the device's memory were not free in time", bytes / 1e9);
    free_ -= bytes;
    return {*this, bytes};
  }

 private:
  void give_back(double bytes) {
    {
      const std::lock_guard lock(mutex_);
      free_ += bytes;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  double free_;
  const double all_;
};

}  // namespace tritonforge::evaluate
