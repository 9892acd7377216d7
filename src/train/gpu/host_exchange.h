#pragma once
// The way from a GPU's gradients to optimizer states in the host's memory and back to its weights, a bucket at a time:
// while the CPU updates one, the bus carries the gradients of the next ones and the weights of those before.
#include <array>
#include <vector>

#include "kernels/gpu/handles.h"
#include "train/gpu/products.h"

namespace tritonforge::train::gpu {

class HostExchange {
 public:
  static constexpr int64_t kBucket = int64_t{8} << 20;  // weights
  static constexpr int64_t kSlots = 3;                  // buckets on the host at a time
  static constexpr int64_t kBytes = kSlots * kBucket * static_cast<int64_t>(sizeof(float) + sizeof(Bf16));  // pinned

  struct Bucket {  // on the device; at most kBucket weights
    const float* gradients;
    Bf16* weights;
    int64_t count;
  };
  explicit HostExchange(std::vector<Bucket> buckets);  // of the calling thread's device

  // The gradients begin to come, as what is queued on kStream leaves them.
  void begin();
  // Waits for a bucket's gradients: all buckets, in their order. Its new weights are to be written beside them.
  struct Staged {
    const float* gradients;
    Bf16* weights;
  };
  Staged receive(size_t bucket);
  // They go back, and the gradients of another bucket take the place. What is queued on kStream afterwards finds them.
  void send(size_t bucket);

 private:
  struct Slot {
    tritonforge::gpu::PinnedMemory gradients{kBucket * sizeof(float)}, weights{kBucket * sizeof(Bf16)};
    tritonforge::gpu::GpuEvent arrived, sent;
  };
  Slot& slot(size_t bucket) { return slots_[bucket % slots_.size()]; }
  void fetch(size_t bucket);

  const CudaApi& api_;
  const std::vector<Bucket> buckets_;
  tritonforge::gpu::GpuStream to_host_, to_device_;
  tritonforge::gpu::GpuEvent made_;  // the gradients
  std::array<Slot, kSlots> slots_;
};

}  // namespace tritonforge::train::gpu
