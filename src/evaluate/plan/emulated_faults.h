#pragma once
// Test equipment: a process P that dies or hangs as one on a faulty GPU does, under a part of the plans that it is
// handed. What it lives to replay is not touched.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "base/rng.h"

namespace tritonforge::evaluate {

class EmulatedFaults {
 public:
  EmulatedFaults(double part, uint64_t seed) : part_(part), rng_(seed) {}
  void begin_plan() { hit_ = rng_.uniform() < part_; }
  // Of ten that are hit: four memory faults, five ends by the runtime, as HIP's, one hang.
  void begin_replay() {
    if (!hit_) return;
    const uint64_t kind = rng_.below(10);
    if (kind == 0) {
      for (;;) ::pause();
    }
    if (kind > 4) std::abort();
    // A real one: as the first of its namespace the process has no use for a signal that it sends itself.
    *reinterpret_cast<volatile int*>(uintptr_t{16}) = 0;
  }

 private:
  const double part_;
  Rng rng_;
  bool hit_ = false;
};

}  // namespace tritonforge::evaluate
