#include "base/job_queue.h"

#include <algorithm>
#include <utility>

namespace tritonforge {

JobQueue::JobQueue(int threads, size_t max_queue) : max_queue_(max_queue) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

JobQueue::~JobQueue() { stop(); }

bool JobQueue::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || waiting_.size() >= max_queue_) return false;
    waiting_.push_back({next_ticket_++, std::move(job)});
  }
  wake_.notify_one();
  return true;
}

size_t JobQueue::queued() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

uint64_t JobQueue::oldest_unfinished() const {
  const uint64_t first_waiting = waiting_.empty() ? next_ticket_ : waiting_.front().ticket;
  return running_.empty() ? first_waiting : std::min(first_waiting, *running_.begin());
}

bool JobQueue::drain(Deadline deadline) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, deadline.at(), [this, end = next_ticket_] { return oldest_unfinished() >= end; });
}

void JobQueue::stop() {
  std::vector<Job> refused;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    const auto first_refused = std::stable_partition(waiting_.begin(), waiting_.end(),
                                                     [](const Waiting& each) { return !each.job.refuse; });
    for (auto each = first_refused; each != waiting_.end(); ++each) refused.push_back(std::move(each->job));
    waiting_.erase(first_refused, waiting_.end());
  }
  wake_.notify_all();
  for (const Job& job : refused) job.refuse();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void JobQueue::work() {
  for (;;) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      running_.insert(next.ticket);
    }
    next.job.run();
    next.job = {};  // what it captured ends before a drain() returns
    {
      const std::lock_guard lock(mutex_);
      running_.erase(next.ticket);
    }
    ended_.notify_all();
  }
}

}  // namespace tritonforge
