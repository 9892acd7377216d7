#include "evaluate/workers.h"

namespace tritonforge::evaluate {

Workers::Place::Place(Workers& workers, const Client& client) : workers_(workers) {
  const Spent::Range waiting(client.spent, Part::kQueue);
  std::unique_lock lock(workers.mutex_);
  if (workers.waiting_ >= workers.max_queue_)
    fail(ErrorKind::kUnavailable, "evaluator: {} evaluations wait already (--max-queue)", workers.waiting_);
  ++workers.waiting_;
  const bool got = workers.freed_.wait_until(lock, client.left, client.deadline.at(),
                                             [&] { return workers.busy_ < workers.workers_; });
  --workers.waiting_;
  if (client.left.stop_requested()) workers.freed_.notify_one();  // it may have been woken in another's place
  check_waited_for(client.left);
  if (!got) fail(ErrorKind::kTimeout, "evaluator: none of {} workers was free in time", workers.workers_);
  workers.count();
  ++workers.busy_;
}

Workers::Place::~Place() {
  {
    const std::lock_guard lock(workers_.mutex_);
    workers_.count();
    --workers_.busy_;
  }
  workers_.freed_.notify_one();
}

void Workers::count() {
  busy_seconds_ += busy_ * seconds_since(counted_);
  counted_ = Clock::now();
}

Workers::Use Workers::use() {
  const std::lock_guard lock(mutex_);
  count();
  return {busy_, waiting_, busy_seconds_};
}

}  // namespace tritonforge::evaluate
