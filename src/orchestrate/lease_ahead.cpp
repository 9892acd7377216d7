#include "orchestrate/lease_ahead.h"

#include "base/error.h"

namespace tritonforge::orchestrate {

void LeaseAhead::begin(int64_t step, Wait wait) {
  give_up();
  step_ = step;
  stop_ = {};
  lease_ = std::async(std::launch::async, [wait = std::move(wait), step, stop = stop_.get_token()] {
    return wait([&] {
      if (stop.stop_requested()) fail(ErrorKind::kUnavailable, "nobody waits for the lease of step {} any more", step);
    });
  });
}

std::optional<Lease> LeaseAhead::take(int64_t step) {
  if (!lease_.valid() || step_ != step) {
    give_up();
    return std::nullopt;
  }
  try {
    return lease_.get();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    return std::nullopt;
  }
}

void LeaseAhead::give_up() {
  stop_.request_stop();
  if (lease_.valid()) lease_.wait();
  lease_ = {};
}

}  // namespace tritonforge::orchestrate
