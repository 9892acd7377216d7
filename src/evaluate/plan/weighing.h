#pragma once
// Whether launches left anything but copies of what they were given.
#include <ATen/ATen.h>

#include <map>
#include <set>
#include <vector>

namespace tritonforge::evaluate {

// Of the launches of a pass, in order. Each is held against what it was given, and all that stand between two of
// torch's computing calls together: one that doubles and one that halves again leave the result to torch, and so do
// launches beside which a scratch tensor changes that nobody looks at.
class Weighing {
 public:
  // Around a launch; `bound`: the tensors it is given.
  void before(const std::vector<at::Tensor>& bound);
  void after(const std::vector<at::Tensor>& bound);
  // A launch was made since the last call of end_run().
  bool in_run() const { return !given_.empty(); }
  // Torch copied, cast or padded `from`: where launches of the run changed that, what it made is the run's, too.
  void moved(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& made);
  // Torch computes next, or nothing comes any more. `used`: storages that somebody looks at from here on.
  void end_run(const std::set<const void*>& used);
  const std::vector<bool>& only_copied() const { return only_copied_; }

 private:
  struct Given {
    at::Tensor tensor, contents;  // as it was when the run's first launch got it
  };
  std::map<const void*, Given> given_;       // of the run, by storage
  std::map<const void*, at::Tensor> moved_;  // what torch made of what its launches changed
  std::vector<at::Tensor> before_;           // contents of what the launch is given
  std::vector<bool> only_copied_;
  size_t first_ = 0;  // launch of the run
};

}  // namespace tritonforge::evaluate
