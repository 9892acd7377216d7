#include "train/job_thread.h"

#include <utility>

namespace tritonforge::train {

JobThread::JobThread(size_t max_queue) : max_queue_(max_queue), thread_([this] { work(); }) {}

JobThread::~JobThread() { stop(); }

bool JobThread::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= max_queue_) return false;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
  return true;
}

size_t JobThread::queued() const {
  const std::lock_guard lock(mutex_);
  return jobs_.size();
}

void JobThread::stop() {
  std::deque<Job> refused;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    refused.swap(jobs_);
  }
  wake_.notify_one();
  for (Job& job : refused) job.refuse();
  if (thread_.joinable()) thread_.join();
}

void JobThread::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job.run();
  }
}

}  // namespace tritonforge::train
