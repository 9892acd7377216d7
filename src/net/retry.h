#pragma once
// Waiting for something remote: exponential back-off with jitter, under a deadline, under a name.
#include <algorithm>
#include <functional>
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
  return error.kind() == ErrorKind::kBusy || error.kind() == ErrorKind::kUnavailable ||
         error.kind() == ErrorKind::kTimeout;
}

struct Retry {
  std::function<bool(const Error&)> again = is_transient;
  Backoff backoff = {};
  std::stop_token stop = {};
  std::function<void(const Error&, double pause_s)> on_pause = {};  // for a log line
};

// Calls `attempt` (returns Result<T>) until it succeeds, fails in a way that `again` does not repeat, the deadline
// passes (kTimeout that names `what` and the last error) or `stop` is requested (the last error). Between two calls it
// pauses as `backoff` says, at least as long as the error asks for. `what` completes "waited for ...".
template <typename T, typename Attempt>
Result<T> retry(const std::string& what, Deadline deadline, Attempt&& attempt, const Retry& how = {}) {
  const auto since = Clock::now();
  for (int n = 0;; ++n) {
    Result<T> result = attempt();
    if (result.ok() || !how.again(result.error())) return result;
    const double left = deadline.remaining_s();
    if (left <= 0) return waited_for(what, since, result.error());
    const double pause_s = std::min(left, std::max(how.backoff.pause_s(n), result.error().retry_after_s()));
    if (how.on_pause) how.on_pause(result.error(), pause_s);
    if (!pause(pause_s, how.stop)) return result;
  }
}

}  // namespace tritonforge::net
