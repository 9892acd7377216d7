#include "router/breaker.h"

#include <algorithm>
#include <utility>

namespace tritonforge::router {
namespace {

Clock::duration in_clock(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

bool Breaker::take_probe(Clock::time_point now) {
  if (state(now) != State::kHalfOpen || probing_) return false;
  return probing_ = true;
}

void Breaker::succeeded(Clock::time_point now) {
  in_a_row_ = 0;
  // Without a probe this is the answer to what was sent before it opened: it says nothing of the worker as it is.
  if (!open_ || !probing_) return;
  open_ = probing_ = false;
  closed_at_ = now;
}

void Breaker::failed(Clock::time_point now) {
  ++in_a_row_;
  const bool probe_failed = std::exchange(probing_, false);
  if (open_ ? !probe_failed : in_a_row_ < options_.failures) return;
  const bool relapse = probe_failed || (pause_s_ > 0 && now - closed_at_ <= in_clock(pause_s_));
  pause_s_ = relapse ? std::min(2 * pause_s_, options_.max_open_s) : options_.open_s;
  open_ = true;
  until_ = now + in_clock(pause_s_);
}

}  // namespace tritonforge::router
