#pragma once
// Transactions of many threads on one connection. A commit waits for the disk; whoever comes meanwhile waits with the
// others, and all of them become one transaction and one wait. A thousand trajectories a second are some dozens of
// flushes, and each is durable when its writer goes on.
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "rollout/sqlite.h"

namespace tritonforge::rollout {

class SharedCommits {
 public:
  explicit SharedCommits(Database& database) : database_(database) {}
  // Runs `work` within a transaction, alone on the connection. When it returned, what was written is durable. Throws
  // what `work` or the disk threw, and then nothing of it is there. Where one of those that share a transaction fails,
  // all are run again, each in its own: `work` must leave nothing behind but what it writes and assigns.
  void run(const std::function<void()>& work);

 private:
  struct Job {
    const std::function<void()>* work;
    bool done = false;
    std::exception_ptr error;
  };
  void commit(const std::vector<Job*>& jobs);
  Database& database_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Job*> waiting_;
  bool busy_ = false;  // somebody writes
};

}  // namespace tritonforge::rollout
