#pragma once
// The lease of a step, waited for while the step before is trained. It is waited for as long as somebody wants it: an
// error of the step before is not held up by groups that nobody will train on.
#include <functional>
#include <future>
#include <optional>
#include <stop_token>

#include "contract/lease.h"

namespace tritonforge::orchestrate {

class LeaseAhead {
 public:
  // Waits for the lease, and calls `check` at least every few seconds, which throws once nobody wants it.
  using Wait = std::function<Lease(const std::function<void()>& check)>;
  LeaseAhead() = default;
  LeaseAhead(const LeaseAhead&) = delete;
  ~LeaseAhead() { give_up(); }

  void begin(int64_t step, Wait wait);
  // That of `step`, once it is there; throws what waiting for it threw. Nothing where none of that step was begun: one
  // of another step (the trainer went back) is given up, and is there again for who asks by its name. Nothing, too,
  // where it was not there in time: what it needs may have been held up by the step before alone, however long that
  // took (groups that are submitted after it, weights that it makes), so that the time begins anew.
  std::optional<Lease> take(int64_t step);

 private:
  void give_up();
  int64_t step_ = 0;
  std::stop_source stop_;
  std::future<Lease> lease_;
};

}  // namespace tritonforge::orchestrate
