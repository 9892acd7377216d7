#pragma once
// Solutions in KernelBook's form, which an older TorchInductor printed, as `data capture` writes them
// (worker/tritonforge_worker/capture/kernelbook.py). Their text is read and nothing of it is run; it is read in
// sandboxed children all the same, each of which takes one after the other.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "evaluate/zygote.h"

namespace tritonforge::evaluate {

class Rewriter {
 public:
  // Returns once the worker has Inductor's library (seconds). Throws what Zygote does.
  Rewriter();
  // `solution` defines ModelNew, as does what comes back. kUnsupported: why there is none, in one line; what is behind
  // a colon is the solution's own. Throws kUnavailable where no child could be made. Any thread.
  Result<std::string> rewrite(const std::string& solution);

 private:
  std::unique_ptr<Child> take(Deadline deadline);

  Zygote zygote_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Child>> idle_;
};

}  // namespace tritonforge::evaluate
