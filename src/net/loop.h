#pragma once
// One thread's event loop, and what its coroutines wait with. What belongs to a loop (connections, the exchanges that
// their handlers begin, all their timers) is touched by its thread alone: there is no strand, and a request that is
// read, forwarded and answered on one loop waits for no other thread to wake up.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

#include "base/clock.h"
#include "net/asio.h"

namespace tritonforge::net {

class Loop : public std::enable_shared_from_this<Loop> {
 public:
  // Something under way that must end before its loop does.
  struct Task {
    virtual ~Task() = default;
    virtual void cancel() = 0;  // on the loop's thread; it ends soon after
    const void* owner = nullptr;
  };

  asio::io_context io{1};  // one thread runs it; any may post

  static std::shared_ptr<Loop> current();  // the calling thread's; null: it has none
  ~Loop() { finish(); }
  void start();   // its thread
  void finish();  // from another thread: cancels the tasks, waits for their end and for the thread's; repeats are fine

  // From any thread.
  bool add(Task* task);  // false: the loop is ending, and takes nothing more
  void remove(Task* task);
  void cancel_tasks(const void* owner);  // those of one owner, without waiting

 private:
  void cancel_now(const void* owner);  // null: everybody's
  std::mutex mutex_;
  std::unordered_set<Task*> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

// A time that moves with every message and hardly ever comes. Moving it costs no timer: the one there is looks again
// when it rings, and is set anew only where it would ring too late.
class Alarm {
 public:
  // `ring` is called on the executor; then nothing is set.
  Alarm(const asio::any_io_executor& executor, std::function<void()> ring);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  void set(Clock::time_point at);
  void clear() { state_->at = Clock::time_point::max(); }

 private:
  struct State : std::enable_shared_from_this<State> {
    explicit State(const asio::any_io_executor& executor) : timer(executor) {}
    void arm();
    void rang();
    asio::steady_timer timer;
    Clock::time_point at = Clock::time_point::max(), armed = Clock::time_point::max();
    std::function<void()> ring;
  };
  const std::shared_ptr<State> state_;  // the timer's handler may outlive the alarm
};

// Wakes the one coroutine that waits, within the call. Nothing is remembered: who waits looks first at what it waits
// for. On one thread.
class Signal {
 public:
  awaitable<void> wait() {
    return asio::async_initiate<const asio::use_awaitable_t<>, void()>(
        [this](Waiter waiter) { waiter_.emplace(std::move(waiter)); }, asio::use_awaitable);
  }
  void notify() {
    if (!waiter_) return;
    Waiter waiter = std::move(*waiter_);
    waiter_.reset();
    waiter();
  }

 private:
  using Waiter = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;
  std::optional<Waiter> waiter_;
};

}  // namespace tritonforge::net
