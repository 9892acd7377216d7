#pragma once
// Lease requests that wait for groups to become complete. One thread answers them in the order in which they came, so a
// waiting request costs no thread of the server.
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "net/http.h"
#include "rollout/store.h"

namespace tritonforge::rollout {

class LeaseQueue {
 public:
  explicit LeaseQueue(Store& store);
  ~LeaseQueue();  // answers those that wait with 503
  // Answers with the Lease as soon as it can be granted, at the deadline with 504, saying what is missing.
  void ask(LeaseRequest request, Deadline deadline, net::ResponderPtr responder);
  void groups_changed();
  size_t waiting() const;

 private:
  struct Waiting {
    LeaseRequest request;
    Deadline deadline;
    net::ResponderPtr responder;
    double timeout_s;
  };
  void loop();
  // True: answered.
  bool try_answer(const Waiting& waiting);
  Store& store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> fresh_;  // not yet looked at
  size_t waiting_ = 0;
  bool look_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tritonforge::rollout
