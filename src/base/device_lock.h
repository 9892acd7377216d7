#pragma once
// One GPU, several processes: engine and trainer hold the device together while they compute, the evaluator holds it
// alone while it measures. Built from two flock files, so a killed holder frees it.
//
// A measurer first takes the gate; users pass through the gate to get in, so a waiting measurer is not starved. Nobody
// waits for ever: a holder that was stopped must not stop all others with it.
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/filesystem.h"

namespace tritonforge {

class DeviceLock {
 public:
  // `device`: "cpu" or a GPU's UUID; the files are /tmp/tritonforge-<uid>/<device>.{gate,lock}.
  explicit DeviceLock(const std::string& device);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

  class Hold {
   public:
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    friend class DeviceLock;
    Hold(int lock_fd, int gate_fd) : lock_fd_(lock_fd), gate_fd_(gate_fd) {}
    int lock_fd_, gate_fd_;
  };
  // Longer than any step or measurement, and than it takes until a hung holder is restarted.
  static constexpr double kPatience = 600;
  // Each throws kUnavailable, naming the processes that hold the device, where it is not free by the deadline.
  Hold shared(Deadline deadline = Deadline::after(kPatience));     // many at once: compute
  Hold exclusive(Deadline deadline = Deadline::after(kPatience));  // alone: measure

 private:
  Hold take(int how, Deadline deadline);
  std::string device_;
  int gate_fd_, lock_fd_;
};

}  // namespace tritonforge
