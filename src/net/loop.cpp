#include "net/loop.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

namespace tritonforge::net {
namespace {

thread_local Loop* loop_of_thread = nullptr;

// As the kernel has it; its header and the C library's cannot be had together.
struct SchedulingAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

// This thread asks for short slices: since Linux 6.12 it then runs sooner once it wakes, before those that compute with
// all their slice ahead of them. Elsewhere it stays as it is.
void wake_promptly() {
  constexpr uint64_t kSlice = 100'000;  // nanoseconds, the least that the kernel takes
  SchedulingAttributes own{};
  if (::syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0 || own.policy != SCHED_OTHER) return;
  own.runtime = kSlice;
  ::syscall(SYS_sched_setattr, 0, &own, 0);
}

}  // namespace

std::shared_ptr<Loop> Loop::current() { return loop_of_thread ? loop_of_thread->shared_from_this() : nullptr; }

void Loop::start() {
  thread_ = std::thread([this, work = asio::make_work_guard(io)] {
    loop_of_thread = this;
    wake_promptly();
    io.run();
  });
}

void Loop::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (tasks_.empty()) io.stop();
  }
  asio::post(io, [this] { cancel_now(nullptr); });
  thread_.join();
}

bool Loop::add(Task* task) {
  const std::lock_guard lock(mutex_);
  if (!ending_) tasks_.insert(task);
  return !ending_;
}

void Loop::remove(Task* task) {
  const std::lock_guard lock(mutex_);
  tasks_.erase(task);
  if (ending_ && tasks_.empty()) io.stop();
}

void Loop::cancel_tasks(const void* owner) {
  asio::post(io, [this, owner] { cancel_now(owner); });
}

void Loop::cancel_now(const void* owner) {
  const std::lock_guard lock(mutex_);
  for (Task* task : tasks_) {
    if (!owner || task->owner == owner) task->cancel();
  }
}

Alarm::Alarm(const asio::any_io_executor& executor, std::function<void()> ring)
    : state_(std::make_shared<State>(executor)) {
  state_->ring = std::move(ring);
}

Alarm::~Alarm() {
  state_->ring = nullptr;
  state_->timer.cancel();
}

void Alarm::set(Clock::time_point at) {
  state_->at = at;
  if (at < state_->armed) state_->arm();
}

void Alarm::State::arm() {
  armed = at;
  timer.expires_at(armed);
  timer.async_wait([self = shared_from_this()](error_code error) {
    if (!error) self->rang();
  });
}

void Alarm::State::rang() {
  armed = Clock::time_point::max();
  if (at == Clock::time_point::max()) return;
  if (at > Clock::now()) return arm();
  at = Clock::time_point::max();
  if (const auto call = ring) call();  // a copy: the call may end the alarm
}

}  // namespace tritonforge::net
