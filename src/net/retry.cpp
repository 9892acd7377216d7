#include "net/retry.h"

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>

namespace tritonforge::net {

double Backoff::pause_s(int n) const {
  thread_local std::minstd_rand random(std::random_device{}());
  const double whole = std::min(max_s, first_s * std::pow(factor, std::min(n, 200)));
  return whole * std::uniform_real_distribution<double>(0.5, 1.0)(random);
}

bool pause(double seconds, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_until(lock, stop, Deadline::after(seconds).at(), [] { return false; });
  return !stop.stop_requested();
}

Error waited_for(const std::string& what, Clock::time_point since, const Error& last) {
  return Error(ErrorKind::kTimeout, fmt::format("waited {:.1f} s for {}: {}", seconds_since(since), what, last.what()));
}

}  // namespace tritonforge::net
