#pragma once
// One engine behind the router: its state and its load. All methods are thread-safe.
#include <atomic>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace tritonforge::router {

// Green: answers. Yellow: failed lately, or not yet seen healthy; still used when no green one is there.
// Red: `failures_until_red` failures in a row; no traffic until a health check succeeds.
enum class WorkerState { kGreen, kYellow, kRed };
std::string_view name_of(WorkerState state);

class Worker {
 public:
  Worker(std::string url, int failures_until_red) : url_(std::move(url)), failures_until_red_(failures_until_red) {}
  const std::string& url() const { return url_; }

  struct Status {
    WorkerState state = WorkerState::kYellow;
    int consecutive_failures = 0;
    int64_t outstanding_requests = 0, outstanding_tokens = 0;
    uint64_t served = 0, failed = 0;
    std::string last_error;
    double seconds_since_seen = -1;  // since it last answered; -1: never
  };
  Status status() const;
  WorkerState state() const;

  void healthy();                         // a health check said 200: green, whatever was before
  void answered();                        // a request was answered: green, unless health checks had found it red
  void failed(const std::string& error);  // no answer, or a health check that is not 200
  // What a request costs while it is out.
  void begin(int64_t tokens);
  void end(int64_t tokens);
  int64_t load() const { return outstanding_requests_; }
  int64_t tokens() const { return outstanding_tokens_; }

 private:
  const std::string url_;
  const int failures_until_red_;
  std::atomic<int64_t> outstanding_requests_{0}, outstanding_tokens_{0};
  mutable std::mutex mutex_;
  Status status_;
  Clock::time_point seen_{};
};

}  // namespace tritonforge::router
