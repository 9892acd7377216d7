#pragma once
// Requests that wait until they can be answered: leases for groups to become complete, the original's readers for
// items. One thread looks at all of them, in the order in which they came, so that one that waits costs no thread of
// the server, and what one of them takes no other has seen.
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "net/http.h"

namespace tritonforge::rollout {

class AnswerQueue {
 public:
  // Nothing: not yet; at the deadline there is an answer.
  using Look = std::function<std::optional<net::Response>(const Deadline&)>;
  using Refusal = std::function<net::Response(const std::exception&)>;
  // What `Look` throws is answered as `refusal` has it. Where `every_s` is given, it is looked so often even if nothing
  // changed.
  explicit AnswerQueue(Refusal refusal, double every_s = 3600);
  ~AnswerQueue();  // answers those that wait with 503
  void ask(Look look, Deadline deadline, net::ResponderPtr responder);
  void look_again();  // something changed that they may wait for
  size_t waiting() const;

 private:
  struct Waiting {
    Look look;
    Deadline deadline;
    net::ResponderPtr responder;
  };
  void loop();
  // True: answered.
  bool try_answer(const Waiting& waiting);
  Refusal refusal_;
  const std::chrono::duration<double> every_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Waiting> fresh_;  // not yet looked at
  size_t waiting_ = 0;
  bool look_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tritonforge::rollout
