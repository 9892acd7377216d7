#pragma once
// What the GPU runners of one engine's tensor-parallel ranks share. Every one has the same buffers at the same places
// (gpu_buffers.h), in memory that the other ranks' GPUs read and write under its address.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/gpu/handles.h"
#include "model/parts.h"

namespace tritonforge::engine {

class GpuRanks {
 public:
  // Why these ranks' GPUs cannot work together, in one line; empty where they can.
  static std::string refusal(const model::Parts& parts);
  // Lets every GPU reach every other. refusal() was empty.
  explicit GpuRanks(const model::Parts& parts);

  int64_t size() const { return parts_.size(); }
  // Where a rank's buffers begin; set by its runner whenever it takes their memory.
  std::byte*& buffers(int64_t rank) { return buffers_[static_cast<size_t>(rank)]; }
  // Each rank's rows of the embedding, where they lie now.
  const gpu::Bf16* table(int64_t rank) const;

  // For kernels: not 0 where nobody shall wait for another rank any more, since one has failed.
  const uint32_t* stop() const { return stop_.as<uint32_t>(); }
  void let_go() { *stop_.as<volatile uint32_t>() = 1; }
  void wait_again() { *stop_.as<volatile uint32_t>() = 0; }  // nothing is queued on any of the GPUs

 private:
  const model::Parts parts_;
  std::vector<std::byte*> buffers_;
  gpu::PinnedMemory stop_;
};

}  // namespace tritonforge::engine
