#pragma once
// Waiting for something remote: exponential back-off with jitter, under a deadline, under a name.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/error.h"

namespace tritonforge::net {

struct Backoff {
  double first_s = 0.02, max_s = 2.0, factor = 1.7;
  // The n-th pause (from 0): min(max, first * factor^n) times a random part in [1/2, 1].
  double pause_s(int n) const;
};

// Pauses that a stop request ends at once. False: stopped.
bool pause(double seconds, std::stop_token stop = {});

// "waited 12.0 s for WHAT: LAST ERROR", kTimeout.
Error waited_for(const std::string& what, Clock::time_point since, const Error& last);

inline bool is_transient(const Error& error) {
  return error.kind() == ErrorKind::kUnavailable || error.kind() == ErrorKind::kTimeout;
}

// Calls `attempt` (returns Result<T>) until it succeeds, fails in a way that `again` does not repeat, the deadline
// passes (kTimeout that names `what` and the last error) or `stop` is requested (the last error). `what` completes
// "waited for ...".
template <typename T, typename Attempt>
Result<T> retry(const std::string& what, Deadline deadline, Attempt&& attempt,
                const std::function<bool(const Error&)>& again = is_transient, const Backoff& backoff = {},
                std::stop_token stop = {}) {
  const auto since = Clock::now();
  for (int n = 0;; ++n) {
    Result<T> result = attempt();
    if (result.ok() || !again(result.error())) return result;
    const double left = deadline.remaining_s();
    if (left <= 0) return waited_for(what, since, result.error());
    if (!pause(std::min(left, backoff.pause_s(n)), stop)) return result;
  }
}

}  // namespace tritonforge::net
