#include "rollout/shared_commits.h"

#include <utility>

namespace tritonforge::rollout {

void SharedCommits::run(const std::function<void()>& work) {
  Job job{&work};
  std::unique_lock lock(mutex_);
  waiting_.push_back(&job);
  ended_.wait(lock, [&] { return job.done || !busy_; });
  if (!job.done) {
    busy_ = true;
    const std::vector<Job*> jobs = std::exchange(waiting_, {});  // this one among them
    lock.unlock();
    commit(jobs);
    lock.lock();
    for (Job* each : jobs) each->done = true;
    busy_ = false;
    ended_.notify_all();
  }
  if (job.error) std::rethrow_exception(job.error);
}

void SharedCommits::commit(const std::vector<Job*>& jobs) {
  try {
    Transaction transaction(database_);
    for (const Job* job : jobs) (*job->work)();
    transaction.commit();
    return;
  } catch (...) {
    if (jobs.size() == 1) {
      jobs[0]->error = std::current_exception();
      return;
    }
  }
  for (Job* job : jobs) commit({job});
}

}  // namespace tritonforge::rollout
