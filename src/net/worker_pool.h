#pragma once
// A fixed number of threads over a bounded queue: what blocking handlers run on.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tritonforge::net {

class WorkerPool {
 public:
  WorkerPool(int threads, size_t max_queue);
  ~WorkerPool();
  // False where the queue is full or the pool is stopping; the job is then not run.
  bool submit(std::function<void()> job);
  size_t queued() const;
  void stop();  // runs what is queued, then joins

 private:
  void work();
  const size_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tritonforge::net
