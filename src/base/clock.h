#pragma once
// Time: a monotonic clock in seconds, and deadlines that every wait carries.
#include <algorithm>
#include <chrono>

namespace tritonforge {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}
double unix_seconds();  // wall clock, for records

class Deadline {
 public:
  static Deadline after(double seconds) {
    constexpr double kLongest = 1e9;  // 30 years; what the clock cannot count would be in the past
    const std::chrono::duration<double> span(std::min(seconds, kLongest));
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(span));
  }
  bool expired() const { return Clock::now() >= at_; }
  double remaining_s() const { return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count()); }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tritonforge
