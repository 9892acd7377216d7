#pragma once
// Holds the default stream until the host has queued what is to be timed, so that no gap of the host's is in it however
// busy its cores are.
#include <ATen/ATen.h>

#include "evaluate/plan/gpu_driver.h"

namespace tritonforge::evaluate {

class GpuGate {
 public:
  // `cubin`: of sealed_words.h's text, which has its kernel; outlives this object. Throws as GpuKernel.
  explicit GpuGate(std::span<const std::byte> cubin);

  // What is queued from here on waits for the end of this object, for `most_s` at most: a step that waits for the
  // device must not wait for ever. Who is not through by then finds what it queued first reached.
  class Closed {
   public:
    Closed(GpuGate& gate, double most_s);
    ~Closed();
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    GpuGate& gate_;
  };

 private:
  GpuKernel kernel_;
  at::Tensor word_;  // int32, in memory of the host that the device reads: the newest ticket that may pass
  int32_t ticket_ = 0;
};

}  // namespace tritonforge::evaluate
