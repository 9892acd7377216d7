#pragma once
// A worker's circuit breaker (Nygard, "Release It!"): who fails requests gets none for a while, then one.
#include "base/clock.h"

namespace tritonforge::router {

struct BreakerOptions {
  int failures = 3;   // requests in a row that open it
  double open_s = 1;  // the first time
  double max_open_s = 60;
};

// Closed: all requests. `failures` in a row open it: none for min(open_s * 2^k, max_open_s) seconds, where k is how
// often it opened since it last stayed closed for longer than its last pause (so a flapping worker gets ever fewer).
// Then half-open: one request at a time is let through, the probe; its success closes, its failure opens again.
// Its owner guards it; `now` is the caller's, so that a test needs no sleep.
class Breaker {
 public:
  explicit Breaker(BreakerOptions options) : options_(options) {}
  enum class State { kClosed, kOpen, kHalfOpen };
  State state(Clock::time_point now) const {
    return !open_ ? State::kClosed : now < until_ ? State::kOpen : State::kHalfOpen;
  }
  bool take_probe(Clock::time_point now);  // true: the caller sends one request and reports how it ended
  void end_probe() { probing_ = false; }   // it ended without telling anything
  void succeeded(Clock::time_point now);
  void failed(Clock::time_point now);
  void reset() { *this = Breaker(options_); }
  double pause_s() const { return pause_s_; }  // of the last time it opened

 private:
  BreakerOptions options_;
  bool open_ = false, probing_ = false;
  int in_a_row_ = 0;
  double pause_s_ = 0;
  Clock::time_point until_{}, closed_at_{};
};

}  // namespace tritonforge::router
