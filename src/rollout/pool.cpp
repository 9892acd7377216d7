#include "rollout/pool.h"

namespace tritonforge::rollout {

RolloutPool::RolloutPool(size_t threads, Work work) : work_(std::move(work)) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

RolloutPool::~RolloutPool() { join(); }

void RolloutPool::join() {
  request_stop();
  threads_.clear();
}

void RolloutPool::submit(const GroupPtr& group, const std::vector<int64_t>& samples) {
  {
    std::lock_guard lock(mutex_);
    for (int64_t sample : samples) jobs_.push_back({group, sample});
  }
  changed_.notify_all();
}

size_t RolloutPool::queued() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

size_t RolloutPool::running() const {
  std::lock_guard lock(mutex_);
  return running_;
}

void RolloutPool::request_stop() { stop_.request_stop(); }

bool RolloutPool::wait_idle(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.at(), [&] { return running_ == 0; });
}

void RolloutPool::loop() {
  const std::stop_token stop = stop_.get_token();
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !jobs_.empty(); }) || stop.stop_requested()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      ++running_;
    }
    work_(job.group, job.sample, stop);
    {
      std::lock_guard lock(mutex_);
      --running_;
    }
    changed_.notify_all();
  }
}

}  // namespace tritonforge::rollout
