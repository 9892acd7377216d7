#include "rollout/pool.h"

#include <algorithm>
#include <iterator>

#include "rollout/generator.h"

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
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    for (int64_t sample : samples) jobs_.push_back({group, sample});
    callback = submitted_;
  }
  changed_.notify_all();
  if (callback) callback();
}

std::vector<RolloutPool::Job> RolloutPool::take(int64_t count) {
  std::lock_guard lock(mutex_);
  std::vector<Job> taken;
  if (stop_.stop_requested()) return taken;
  for (; !jobs_.empty() && std::ssize(taken) < count; jobs_.pop_front()) taken.push_back(std::move(jobs_.front()));
  return taken;
}

// One walk for all of them: a buffer that was started again is told of thousands by each process.
std::map<std::string, RolloutPool::Job> RolloutPool::take(const std::set<std::string>& trajectories) {
  std::map<std::string, Job> taken;
  if (trajectories.empty()) return taken;
  std::lock_guard lock(mutex_);
  const auto id = [](const Job& job) { return trajectory_id(job.group->id, job.sample); };
  const auto theirs = std::ranges::stable_partition(jobs_,
                                                    [&](const Job& job) { return !trajectories.contains(id(job)); });
  for (Job& job : theirs) taken.try_emplace(id(job), std::move(job));
  jobs_.erase(theirs.begin(), theirs.end());
  return taken;
}

void RolloutPool::put_back(std::vector<Job> jobs) {
  {
    std::lock_guard lock(mutex_);
    jobs_.insert(jobs_.begin(), std::make_move_iterator(jobs.begin()), std::make_move_iterator(jobs.end()));
  }
  changed_.notify_all();
}

void RolloutPool::on_submit(std::function<void()> callback) {
  std::lock_guard lock(mutex_);
  submitted_ = std::move(callback);
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
