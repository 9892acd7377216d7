#include "evaluate/child_pool.h"

namespace tritonforge::evaluate {

ChildPool::Worker ChildPool::take(Deadline deadline) {
  Worker worker;
  std::vector<Worker> ended;  // with their Python parent; they go after the lock is gone
  {
    const std::lock_guard lock(mutex_);
    while (!idle_.empty() && !worker.child) {
      Worker last = std::move(idle_.back());
      idle_.pop_back();
      (last.child->alive() ? worker : ended.emplace_back()) = std::move(last);
    }
  }
  if (worker.child) return worker;
  worker.child = children_.spawn(role_, limits_, deadline);
  if (prepare_) prepare_(*worker.child, deadline);
  return worker;
}

void ChildPool::give_back(Worker worker) {
  if (++worker.jobs >= jobs_) return;
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(worker));
}

}  // namespace tritonforge::evaluate
