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

Worker::Status Worker::status() const {
  const std::lock_guard lock(mutex_);
  Status status = status_;
  status.outstanding_requests = outstanding_requests_;
  status.outstanding_tokens = outstanding_tokens_;
  if (seen_ != Clock::time_point{}) status.seconds_since_seen = seconds_since(seen_);
  return status;
}

WorkerState Worker::state() const {
  const std::lock_guard lock(mutex_);
  return status_.state;
}

void Worker::healthy() {
  const std::lock_guard lock(mutex_);
  if (status_.state == WorkerState::kRed) log::info("worker {} is back", url_);
  status_.state = WorkerState::kGreen;
  status_.consecutive_failures = 0;
  status_.last_error.clear();
  seen_ = Clock::now();
}

void Worker::answered() {
  const std::lock_guard lock(mutex_);
  ++status_.served;
  seen_ = Clock::now();
  if (status_.state == WorkerState::kRed) return;
  status_.state = WorkerState::kGreen;
  status_.consecutive_failures = 0;
}

void Worker::failed(const std::string& error) {
  const std::lock_guard lock(mutex_);
  ++status_.failed;
  ++status_.consecutive_failures;
  status_.last_error = error;
  const bool red = status_.consecutive_failures >= failures_until_red_;
  if (red && status_.state != WorkerState::kRed)
    log::warn("worker {} is red after {} failures: {}", url_, status_.consecutive_failures, error);
  status_.state = red ? WorkerState::kRed : WorkerState::kYellow;
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
