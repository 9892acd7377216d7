#pragma once
// Who waits for a verdict: until when, and whether still.
#include <stop_token>

#include "base/clock.h"
#include "base/error.h"
#include "evaluate/spent.h"

namespace tritonforge::evaluate {

struct Client {
  Client(Deadline until = Deadline::after(3600), std::stop_token gone = {}) : deadline(until), left(std::move(gone)) {}
  Deadline deadline;
  std::stop_token left;
  Spent* spent = nullptr;  // where the time goes that is waited; null: nobody counts
};

// Throws kTimeout once the client is gone: no attempt to find its verdict shall be repeated.
inline void check_waited_for(const std::stop_token& left) {
  if (left.stop_requested()) fail(ErrorKind::kTimeout, "evaluator: the client hung up");
}

}  // namespace tritonforge::evaluate
