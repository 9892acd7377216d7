#pragma once
// One thread that runs jobs in order: everything that touches the model happens there.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tritonforge::train {

class JobThread {
 public:
  explicit JobThread(size_t max_queue);
  ~JobThread();
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;

  struct Job {
    std::function<void()> run;     // must not throw
    std::function<void()> refuse;  // called instead where the thread stops first
  };
  // False where the queue is full or the thread is stopping: neither function is then called.
  bool submit(Job job);
  size_t queued() const;
  // Lets the running job end, refuses the queued ones, and joins.
  void stop();

 private:
  void work();
  const size_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tritonforge::train
