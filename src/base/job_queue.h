#pragma once
// A bounded queue of jobs over threads of its own: what blocking HTTP handlers, the training thread and the engine's
// replies run on. One thread runs the jobs in the order of their submission.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace tritonforge {

class JobQueue {
 public:
  static constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
  explicit JobQueue(int threads, size_t max_queue = kUnbounded);
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  struct Job {
    std::function<void()> run;     // must not throw
    std::function<void()> refuse;  // called instead, by stop(), for a job that still waits then; without it, it runs
  };
  // False where the queue is full or stopping: neither function is then called.
  bool submit(Job job);
  bool submit(std::function<void()> run) { return submit(Job{std::move(run), nullptr}); }
  size_t queued() const;  // jobs that wait, without those that run
  // Returns once every job submitted before the call has ended and is destroyed; false where the deadline passed.
  // Not for the queue's own threads.
  bool drain(Deadline deadline) const;
  // Takes no more jobs, refuses or runs (above) those that wait, and joins. The second call does nothing.
  void stop();

 private:
  struct Waiting {
    uint64_t ticket;  // counts submissions
    Job job;
  };
  void work();
  uint64_t oldest_unfinished() const;  // with the mutex held

  const size_t max_queue_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  mutable std::condition_variable ended_;
  std::deque<Waiting> waiting_;
  std::set<uint64_t> running_;
  uint64_t next_ticket_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tritonforge
