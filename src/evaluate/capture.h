#pragma once
// Another solution of a problem's module: the Triton code that TorchInductor generates for it on an H100, as a person
// would write it (worker/tritonforge_worker/capture/). Needs no GPU. The module's own code runs in a sandboxed child,
// one for each problem; what comes back is a claim, for an evaluator to judge.
#include <array>
#include <string>

#include "base/error.h"
#include "base/named_enum.h"
#include "evaluate/reference.h"
#include "evaluate/zygote.h"

namespace tritonforge::evaluate {

struct Captured {
  std::string problem;   // with its sizes within the budget: the solution has them as numbers
  std::string solution;  // defines ModelNew
};

// What multiplies matrices.
enum class Gemm { kLibrary, kTriton };
constexpr std::array<std::string_view, 2> names_of(Gemm) { return {"library", "triton"}; }

struct CaptureOptions {
  Budget budget = kSmall;  // of a problem; 0, 0: as it stands
  Gemm gemm = Gemm::kLibrary;
  double timeout_s = 60;      // of one problem
  int64_t max_bytes = 65536;  // of a solution: of an unrolled recurrence it is a hundred kernels
};

class Capturer {
 public:
  // Returns once Inductor is imported (seconds). Throws what Zygote does.
  explicit Capturer(const CaptureOptions& options);
  // kUnsupported: why there is none, in one line. Throws kUnavailable where no child could be made. Any thread.
  Result<Captured> capture(const std::string& source);

 private:
  CaptureOptions options_;
  Zygote zygote_;
};

}  // namespace tritonforge::evaluate
