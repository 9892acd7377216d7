#pragma once
// Expected outputs in process P while a candidate's kernels run beside them: under a mask of random bytes that only
// this process's host memory can make again, and compared with what was computed without ever being opened in memory.
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "evaluate/compare.h"
#include "evaluate/plan/gpu_driver.h"

namespace tritonforge::evaluate {

// What runs sealed_words.h: the twin for tensors in the CPU's memory, the kernel for those on a GPU.
class Sealer {
 public:
  Sealer() = default;
  // Of sealed_words.h's text as NVRTC compiled it. Throws as GpuKernel.
  Sealer(std::span<const std::byte> cubin, KernelShape shape);
  // `words`: [blocks, 4] int32, whose first `bytes` bytes are of use.
  struct Run {
    at::Tensor words;
    int64_t bytes = 0;
    uint64_t seed = 0;
    const void* computed = nullptr;  // null: the mask is put on the words
    int kind = 0;
    Bounds bounds{};
    void* found = nullptr;  // a sealed::Difference beside the words
  };
  void run(const Run& run) const;

 private:
  std::unique_ptr<GpuKernel> kernel_;
};

class SealedTensor {
 public:
  // A copy of `tensor`, which the caller wipes.
  SealedTensor(const Sealer& sealer, const at::Tensor& tensor, const Bounds& bounds, uint64_t seed);
  const at::Tensor& masked() const { return words_; }

 private:
  friend class SealedOutputs;
  bool may_be(const at::Tensor& output) const;
  at::Tensor words_;
  std::vector<int64_t> sizes_, strides_;
  at::ScalarType type_;
  int64_t bytes_;
  Bounds bounds_;
  uint64_t seed_;
};

// All outputs of one trial.
class SealedOutputs {
 public:
  // Throws kUsage for bounds of other outputs.
  SealedOutputs(const Sealer& sealer, const std::vector<at::Tensor>& outputs, const std::vector<Bounds>& bounds,
                uint64_t seed);
  // Queued behind what computes `outputs`; right() waits for it. Each is as compare.h judges it.
  class Comparison {
   public:
    bool right() const;

   private:
    friend class SealedOutputs;
    const SealedOutputs* expected_ = nullptr;
    at::Tensor found_;  // [outputs, 3]: a Difference each; undefined: shapes or types differ
  };
  Comparison compare(const Sealer& sealer, const std::vector<at::Tensor>& outputs) const;

 private:
  std::vector<SealedTensor> tensors_;
};

}  // namespace tritonforge::evaluate
