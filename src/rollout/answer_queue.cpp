#include "rollout/answer_queue.h"

#include <algorithm>

namespace tritonforge::rollout {

AnswerQueue::AnswerQueue(Refusal refusal, double every_s)
    : refusal_(std::move(refusal)), every_(every_s), thread_([this] { loop(); }) {}

AnswerQueue::~AnswerQueue() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AnswerQueue::ask(Look look, Deadline deadline, net::ResponderPtr responder) {
  {
    std::lock_guard lock(mutex_);
    fresh_.push_back({std::move(look), deadline, std::move(responder)});
  }
  changed_.notify_all();
}

void AnswerQueue::look_again() {
  {
    std::lock_guard lock(mutex_);
    look_ = true;
  }
  changed_.notify_all();
}

size_t AnswerQueue::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_ + fresh_.size();
}

bool AnswerQueue::try_answer(const Waiting& waiting) {
  // What one that hung up is given, nobody has: it is for one that still waits, or for when it asks again.
  if (!waiting.responder->connected()) return true;
  try {
    auto answer = waiting.look(waiting.deadline);
    if (!answer) return false;
    waiting.responder->send(*std::move(answer));
  } catch (const std::exception& error) {
    waiting.responder->send(refusal_(error));
  }
  return true;
}

void AnswerQueue::loop() {
  std::list<Waiting> pending;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    auto wake = Clock::now() + std::chrono::duration_cast<Clock::duration>(every_);
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
  for (const Waiting& waiting : pending)
    waiting.responder->send(refusal_(Error(ErrorKind::kUnavailable, "the buffer is stopping; ask again")));
}

}  // namespace tritonforge::rollout
