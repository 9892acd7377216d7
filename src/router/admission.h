#pragma once
// Who may go to an engine now, who waits and who is refused, before an engine is chosen. Thread-safe.
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "contract/priority.h"
#include "router/options.h"

namespace tritonforge::router {

// A bucket holds up to `burst` tokens and gains `rate` a second: level(t) = min(burst, level + rate * dt). A request
// takes one; where there is less than one it is refused. Its owner guards it.
class TokenBucket {
 public:
  TokenBucket(double rate, double burst) : rate_(rate), burst_(burst), level_(burst) {}
  // 0: taken. Otherwise the seconds until there is a token. A rate of 0 refuses nothing.
  double take(Clock::time_point now);
  void give_back();  // what was taken for a request that was refused all the same

 private:
  double rate_, burst_, level_;
  Clock::time_point seen_{};
};

class Admission {
 public:
  explicit Admission(AdmissionOptions options);
  ~Admission();  // close()
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  using Ticket = std::shared_ptr<void>;  // its last handle's end makes room for the next; null where nothing is limited
  using Start = std::function<void(Result<Ticket>)>;
  // Calls `start` once: now, or from the thread that ends another's ticket, or from this object's own. The error is
  // kBusy where the bucket is empty (with when to ask again) or as many wait as may (a training request then takes the
  // place of the youngest evaluation that waits), kTimeout past the deadline, kUnavailable once closed.
  // Returns what cancel() takes: the client has left, `start` is dropped without a call where it still waits.
  uint64_t ask(Priority priority, Deadline deadline, Start start);
  void cancel(uint64_t id);
  void close();  // who waits is refused, and who comes
  size_t waiting() const;
  int64_t running() const;

 private:
  struct Waiter {
    Clock::time_point deadline;
    Start start;
  };
  Ticket ticket();
  void release();
  void start_waiting(std::unique_lock<std::mutex>& lock);
  void expire(std::stop_token stop);
  size_t count() const { return waiting_[0].size() + waiting_[1].size(); }

  const AdmissionOptions options_;
  mutable std::mutex mutex_;
  std::array<TokenBucket, 2> buckets_;                 // by priority, as the next
  std::array<std::map<uint64_t, Waiter>, 2> waiting_;  // the oldest first
  uint64_t next_id_ = 1;
  int64_t running_ = 0;
  bool starting_ = false, closed_ = false;
  Clock::time_point alarm_ = Clock::time_point::max();  // when expire() looks next
  std::condition_variable_any changed_;
  std::jthread expiry_;  // only where requests may wait
};

}  // namespace tritonforge::router
