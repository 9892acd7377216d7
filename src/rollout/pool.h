#pragma once
// The trajectories under way: one thread each, at most `threads` at a time, in the order of submission. There is no
// barrier between them: each samples, is evaluated and goes on as its own replies come.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "contract/rollout.h"

namespace tritonforge::rollout {

using GroupPtr = std::shared_ptr<const GroupSpec>;

class RolloutPool {
 public:
  // Runs one trajectory to its durable end, or to the stop. Must not throw.
  using Work = std::function<void(const GroupPtr&, int64_t sample, std::stop_token)>;
  RolloutPool(size_t threads, Work work);
  ~RolloutPool();  // stops and joins
  void submit(const GroupPtr& group, const std::vector<int64_t>& samples);
  size_t queued() const;
  size_t running() const;
  struct Job {
    GroupPtr group;
    int64_t sample;
  };
  // For other processes: at most so many of those that wait, or certain ones by their trajectories' ids, as far as they
  // wait; and back, before all others.
  std::vector<Job> take(int64_t count);
  std::map<std::string, Job> take(const std::set<std::string>& trajectories);
  void put_back(std::vector<Job> jobs);
  // Called, from any thread, where samples came that may wait.
  void on_submit(std::function<void()> callback);
  // Nothing new is begun; what runs sees the stop.
  void request_stop();
  // Stops and waits for every thread, however long its peers take to answer.
  void join();
  // After request_stop: whether all threads came to rest in time.
  bool wait_idle(Deadline deadline);

 private:
  void loop();
  Work work_;
  std::stop_source stop_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;
  std::function<void()> submitted_;
  size_t running_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace tritonforge::rollout
