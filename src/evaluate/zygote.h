#pragma once
// The warm Python parent and its disposable children. A keeper thread owns the process: it starts it, reads its
// messages and starts it again where it died, so a lost zygote costs the jobs under way and nothing more.
#include <memory>
#include <string>

#include "evaluate/children.h"

namespace tritonforge::evaluate {

struct ZygoteOptions {
  fs::path python;           // interpreter with torch and triton; empty: TRITONFORGE_PYTHON, else the build's
  fs::path worker;           // folder that holds tritonforge_worker; empty: found (find_worker_folder)
  fs::path sandbox_library;  // empty: beside the binary
  bool gpu = false;          // a child may be granted the GPU
  bool once = false;         // for one evaluation: what only later children would gain from is not made ready
  bool records = true;       // it is, or may be, of a plan
  bool compiles = false;     // TorchInductor is imported, for problems' own processes (seconds)
  bool captures = false;     // the same for children of the role capture
  double start_timeout_s = 120;
};

// TRITONFORGE_ROOT/worker, else beside the binary's folder, else the source folder of the build. Throws kNotFound.
fs::path find_worker_folder();
fs::path find_sandbox_library();
fs::path find_python();

class Zygote : public Children {
 public:
  // Returns once the zygote is warm; throws kMachine naming what is missing.
  explicit Zygote(ZygoteOptions options);
  ~Zygote() override;
  // Its children end with it, and none is spawned any more.
  void end();
  std::unique_ptr<Child> spawn(const std::string& role, const ChildLimits& limits, Deadline deadline) override;
  Json versions() const;  // python, torch, triton, numpy
  Json missing() const;   // what cannot be compiled here (languages/language.h)
  int restarts() const;
  const ZygoteOptions& options() const { return options_; }

 private:
  ZygoteOptions options_;
  std::shared_ptr<struct ZygoteState> state_;
};

}  // namespace tritonforge::evaluate
