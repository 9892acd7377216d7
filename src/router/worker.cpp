#include "router/worker.h"

#include "base/log.h"

namespace tritonforge::router {

std::string_view name_of(WorkerState state) {
  switch (state) {
    case WorkerState::kGreen: return "green";
    case WorkerState::kYellow: return "yellow";
    case WorkerState::kRed: return "red";
  }
  return "red";
}

std::string_view name_of(Breaker::State state) {
  switch (state) {
    case Breaker::State::kClosed: return "closed";
    case Breaker::State::kOpen: return "open";
    case Breaker::State::kHalfOpen: return "half_open";
  }
  return "open";
}

Worker::Status Worker::status() const {
  const std::lock_guard lock(mutex_);
  Status status = status_;
  status.state = state_;
  status.outstanding_requests = outstanding_requests_;
  status.outstanding_tokens = outstanding_tokens_;
  status.draining = draining_;
  status.breaker = breaker_.state(Clock::now());
  if (seen_ != Clock::time_point{}) status.seconds_since_seen = seconds_since(seen_);
  return status;
}

void Worker::healthy() {
  heard();
  const std::lock_guard lock(mutex_);
  sick_ = false;
  seen_ = Clock::now();
  if (breaker_.state(seen_) != Breaker::State::kClosed) return;  // it answers /health and fails requests
  if (state_ == WorkerState::kRed) log::info("worker {} is back", url_);
  state_ = WorkerState::kGreen;
  status_.consecutive_failures = 0;
  status_.last_error.clear();
}

void Worker::unhealthy(const std::string& error, Time now) {
  Time never = Time::max();
  silent_since_.compare_exchange_strong(never, now);
  const std::lock_guard lock(mutex_);
  sick_ = true;
  count_failure(error);
}

void Worker::heard() {
  if (silent_since_.load() != Time::max()) silent_since_ = Time::max();  // it is asked for each piece of each stream
}

void Worker::answered(Time now) {
  heard();
  const std::lock_guard lock(mutex_);
  ++status_.served;
  seen_ = now;
  const bool was_open = breaker_.state(now) != Breaker::State::kClosed;
  breaker_.succeeded(now);
  const bool closed_now = was_open && breaker_.state(now) == Breaker::State::kClosed;
  if (closed_now) log::info("worker {} is back: it answered the probe", url_);
  if (state_ == WorkerState::kRed && (sick_ || !closed_now)) return;
  state_ = WorkerState::kGreen;
  status_.consecutive_failures = 0;
}

void Worker::failed(const std::string& error, Time now) {
  const std::lock_guard lock(mutex_);
  breaker_.failed(now);
  count_failure(error);
}

bool Worker::take_probe(Time now) {
  const std::lock_guard lock(mutex_);
  return !sick_ && !draining_ && breaker_.take_probe(now);
}

void Worker::end_probe() {
  const std::lock_guard lock(mutex_);
  breaker_.end_probe();
}

void Worker::drain() { draining_ = true; }

void Worker::put_in_service() {
  const std::lock_guard lock(mutex_);
  draining_ = false;
  if (breaker_.state(Clock::now()) == Breaker::State::kClosed) return;
  breaker_.reset();
  state_ = WorkerState::kYellow;
  status_.consecutive_failures = 0;
}

void Worker::count_failure(const std::string& error) {
  ++status_.failed;
  ++status_.consecutive_failures;
  status_.last_error = error;
  const bool red = status_.consecutive_failures >= failures_until_red_ ||
                   breaker_.state(Clock::now()) != Breaker::State::kClosed;
  if (red && state_ != WorkerState::kRed)
    log::warn("worker {} is red after {} failures: {}", url_, status_.consecutive_failures, error);
  state_ = red ? WorkerState::kRed : WorkerState::kYellow;
}

void Worker::count(int outcome) {
  const std::lock_guard lock(mutex_);
  ++status_.outcomes[outcome];
}

void Worker::sent(const std::shared_ptr<net::AsyncCall>& call) {
  const std::lock_guard lock(mutex_);
  out_.insert(call);
}

void Worker::done(const std::shared_ptr<net::AsyncCall>& call) {
  const std::lock_guard lock(mutex_);
  out_.erase(call);
}

void Worker::end_if_silent(double silence_s, Time now) {
  const Time since = silent_since_;
  const double silent_s = since == Time::max() ? 0 : std::chrono::duration<double>(now - since).count();
  if (silent_s < silence_s) return;
  const std::lock_guard lock(mutex_);
  const Error hangs(ErrorKind::kUnavailable,
                    fmt::format("{}: it hangs: health checks have failed for {:.0f} s, and nothing came of what it was "
                                "asked; {}",
                                url_, silent_s, status_.last_error));
  for (const auto& call : out_) call->cancel(hangs);
}

void Worker::begin(int64_t tokens) {
  ++outstanding_requests_;
  outstanding_tokens_ += tokens;
}

void Worker::end(int64_t tokens) {
  --outstanding_requests_;
  outstanding_tokens_ -= tokens;
}

}  // namespace tritonforge::router
