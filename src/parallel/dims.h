#pragma once
// The parallel axes of a training job and the only place where their degrees are validated (design section 7).
//   tp  tensor parallel (with sequence parallel)   cp  context parallel   pp  pipeline parallel
//   dp  data parallel with sharded optimizer state ep  expert parallel
// world = tp * cp * pp * dp; ep divides dp * cp.
#include <cstdint>

#include "base/error.h"

namespace tritonforge::parallel {

struct ParallelDims {
  int64_t tp = 1, cp = 1, pp = 1, dp = 1, ep = 1;

  template <typename Visitor>
  void describe(Visitor& v) {
    v("tp", tp, "tensor parallel degree");
    v("cp", cp, "context parallel degree");
    v("pp", pp, "pipeline parallel degree");
    v("dp", dp, "data parallel degree (optimizer state sharded)");
    v("ep", ep, "expert parallel degree");
  }

  // kUsage for a degree below 1, kUnsupported by name for a degree that is not implemented.
  void validate() const {
    const auto check = [](const char* axis, int64_t degree) {
      if (degree < 1) fail(ErrorKind::kUsage, "parallel.{} must be at least 1, not {}", axis, degree);
      if (degree > 1) fail(ErrorKind::kUnsupported, "parallel.{} = {}: only degree 1 is implemented", axis, degree);
    };
    check("tp", tp);
    check("cp", cp);
    check("pp", pp);
    check("dp", dp);
    check("ep", ep);
  }
};

}  // namespace tritonforge::parallel
