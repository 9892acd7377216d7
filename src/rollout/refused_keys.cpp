#include "rollout/refused_keys.h"

#include "base/log.h"

namespace tritonforge::rollout {

bool RefusedKeys::enter(const std::string& url, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto refusal = refusals_.find(url);
    if (refusal == refusals_.end()) return true;  // also after a stop: what is under way is brought to its end
    if (stop.stop_requested()) return false;
    const auto now = Clock::now();
    const auto again = refusal->second.again;
    if (again <= now) {
      refusal->second.again = now + std::chrono::duration_cast<Clock::duration>(pause_);
      return true;
    }
    changed_.wait_until(lock, stop, again, [&] { return !refusals_.contains(url); });
  }
}

void RefusedKeys::refused(const std::string& url, const std::string& line) {
  std::lock_guard lock(mutex_);
  const auto again = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause_);
  if (refusals_.insert_or_assign(url, Refusal{line, again}).second) log::error("{}; all that ask it wait", line);
}

void RefusedKeys::taken(const std::string& url) {
  {
    std::lock_guard lock(mutex_);
    if (refusals_.erase(url) == 0) return;
  }
  log::info("{} takes its key; those that waited for it go on", url);
  changed_.notify_all();
}

std::string RefusedKeys::line() const {
  std::lock_guard lock(mutex_);
  return refusals_.empty() ? "" : refusals_.begin()->second.line;
}

}  // namespace tritonforge::rollout
