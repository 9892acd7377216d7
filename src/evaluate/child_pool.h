#pragma once
// Children of one role that hold nothing of a job once it is done, and so are kept for the next one: a fork of the
// Python parent costs a third of what a small kernel's evaluation does. None runs a candidate's code. Thread-safe.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "evaluate/children.h"

namespace tritonforge::evaluate {

class ChildPool {
 public:
  // What a fresh child is asked before its first job. Throws where it cannot serve.
  using Prepare = std::function<void(Child&, Deadline)>;
  // `jobs`: of one child, so that what a job leaves behind stays bounded. As many are kept as were at work at once.
  ChildPool(Children& children, std::string role, const ChildLimits& limits, int jobs, Prepare prepare = {})
      : children_(children), role_(std::move(role)), limits_(limits), jobs_(jobs), prepare_(std::move(prepare)) {}

  struct Worker {
    std::unique_ptr<Child> child;
    int jobs = 0;  // done
  };
  // An idle one, or a fresh one. Throws as Children::spawn and `prepare`.
  Worker take(Deadline deadline);
  // Only one that answered all it was asked; any other is left to its end.
  void give_back(Worker worker);

 private:
  Children& children_;
  const std::string role_;
  const ChildLimits limits_;
  const int jobs_;
  const Prepare prepare_;
  std::mutex mutex_;
  std::vector<Worker> idle_;
};

}  // namespace tritonforge::evaluate
