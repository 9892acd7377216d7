#include "rollout/lease_queue.h"

#include <algorithm>

namespace tritonforge::rollout {

LeaseQueue::LeaseQueue(Store& store) : store_(store), thread_([this] { loop(); }) {}

LeaseQueue::~LeaseQueue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LeaseQueue::ask(LeaseRequest request, Deadline deadline, net::ResponderPtr responder) {
  {
    std::lock_guard lock(mutex_);
    fresh_.push_back({std::move(request), deadline, std::move(responder), deadline.remaining_s()});
  }
  changed_.notify_all();
}

void LeaseQueue::groups_changed() {
  {
    std::lock_guard lock(mutex_);
    look_ = true;
  }
  changed_.notify_all();
}

size_t LeaseQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_ + fresh_.size();
}

bool LeaseQueue::try_answer(const Waiting& waiting) {
  // A client that hung up asks again with the same lease id; granting now would be right as well, but a lease that
  // nobody waits for may take groups from one that somebody does.
  if (!waiting.responder->connected()) return true;
  try {
    auto answer = store_.lease(waiting.request);
    if (answer.lease) {
      waiting.responder->send(net::Response::json(to_json(lease_of(*answer.lease, waiting.request.samples))));
      return true;
    }
    if (!waiting.deadline.expired()) return false;
    waiting.responder->send(net::Response::error(Error(
        ErrorKind::kTimeout,
        fmt::format("lease {}: waited {:.0f} s: {}", waiting.request.lease_id, waiting.timeout_s, answer.missing))));
  } catch (const std::exception& error) {
    waiting.responder->send(net::Response::error(error));
  }
  return true;
}

void LeaseQueue::loop() {
  std::list<Waiting> pending;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    auto wake = Clock::now() + std::chrono::hours(1);
    for (const Waiting& waiting : pending) wake = std::min(wake, waiting.deadline.at());
    changed_.wait_until(lock, wake, [&] { return stop_ || look_ || !fresh_.empty(); });
    if (stop_) break;
    look_ = false;
    pending.splice(pending.end(), fresh_);
    waiting_ = pending.size();
    lock.unlock();
    pending.remove_if([&](const Waiting& waiting) { return try_answer(waiting); });
    lock.lock();
    waiting_ = pending.size();
  }
  pending.splice(pending.end(), fresh_);
  lock.unlock();
  for (const Waiting& waiting : pending) {
    waiting.responder->send(net::Response::error(
        Error(ErrorKind::kUnavailable, "the buffer is stopping; ask again with the same lease id")));
  }
}

}  // namespace tritonforge::rollout
