#pragma once
// One engine behind the router: its state and its load. All methods are thread-safe.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/clock.h"
#include "net/async_client.h"
#include "router/breaker.h"
#include "router/hash.h"

namespace tritonforge::router {

// Green: answers. Yellow: failed lately, or not yet seen healthy; still used when no green one is there.
// Red: `failures` failures in a row, health checks among them; no traffic until a health check succeeds and, where
// requests failed, the breaker has let one through that was answered.
enum class WorkerState { kGreen, kYellow, kRed };
std::string_view name_of(WorkerState state);
std::string_view name_of(Breaker::State state);  // closed, open, half_open

class Worker {
 public:
  Worker(std::string url, BreakerOptions breaker)
      : url_(std::move(url)), hash_(hash_of(url_)), failures_until_red_(breaker.failures), breaker_(breaker) {}
  const std::string& url() const { return url_; }
  uint64_t hash() const { return hash_; }  // of the URL

  struct Status {
    WorkerState state = WorkerState::kYellow;
    int consecutive_failures = 0;
    int64_t outstanding_requests = 0, outstanding_tokens = 0;
    uint64_t served = 0, failed = 0;
    std::string last_error;
    double seconds_since_seen = -1;  // since it last answered; -1: never
    bool draining = false;
    Breaker::State breaker = Breaker::State::kClosed;
    std::map<int, uint64_t> outcomes;  // requests by the status that they were answered with; 0: by none
  };
  Status status() const;
  WorkerState state() const { return state_; }  // without a lock: every request asks it of every worker

  using Time = Clock::time_point;
  void healthy();  // a health check said 200: green where the breaker is closed
  void unhealthy(const std::string& error, Time now = Clock::now());  // one that is not 200, or got no answer
  void heard();                                                       // a piece of an answer came
  void answered(Time now = Clock::now());  // a request was answered: green, unless it is red and this no probe
  void failed(const std::string& error, Time now = Clock::now());  // a request got no answer
  // True: the breaker is half-open, no other probe is out and the last health check was good; the caller sends one
  // request there. It ends with answered(), failed(), or end_probe() where nobody waited for the outcome.
  bool take_probe(Time now = Clock::now());
  void end_probe();
  // A draining worker gets no new request; what is under way ends. put_in_service() ends that and closes the breaker:
  // whoever registers a worker says that it is a fresh one.
  void drain();
  void put_in_service();
  bool draining() const { return draining_; }
  void count(int outcome);  // see Status
  // What a request costs while it is out.
  void begin(int64_t tokens);
  void end(int64_t tokens);
  // Between the two: what ends it. A worker that hangs keeps its connections, so nothing else would.
  void sent(const std::shared_ptr<net::AsyncCall>& call);
  void done(const std::shared_ptr<net::AsyncCall>& call);
  // Ends all that are out, as failed, where health checks have failed for `silence_s` and nothing was heard meanwhile.
  void end_if_silent(double silence_s, Time now = Clock::now());
  int64_t load() const { return outstanding_requests_; }
  int64_t tokens() const { return outstanding_tokens_; }

 private:
  const std::string url_;
  const uint64_t hash_;
  const int failures_until_red_;
  std::atomic<int64_t> outstanding_requests_{0}, outstanding_tokens_{0};
  std::atomic<bool> draining_{false};
  std::atomic<WorkerState> state_{WorkerState::kYellow};  // written under the mutex
  mutable std::mutex mutex_;
  Status status_;  // what changes seldom, and what is counted under the mutex
  Breaker breaker_;
  bool sick_ = false;  // the last health check failed
  Clock::time_point seen_{};
  std::atomic<Time> silent_since_{Time::max()};  // the first health check that failed since it was heard of
  std::set<std::shared_ptr<net::AsyncCall>> out_;

  void count_failure(const std::string& error);
};

}  // namespace tritonforge::router
