#pragma once
// One GPU, several processes: engine and trainer hold the device together while they compute, the evaluator holds it
// alone while it measures. Built from two flock files, so a killed holder frees it.
//
// A measurer first takes the gate; users pass through the gate to get in, so a waiting measurer is not starved.
#include <optional>
#include <string>

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
  Hold shared();     // many at once: compute
  Hold exclusive();  // alone: measure

 private:
  int gate_fd_, lock_fd_;
};

}  // namespace tritonforge
