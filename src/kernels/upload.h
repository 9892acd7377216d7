#pragma once
// Large tensors from pageable memory (a file's map) to a GPU: several CPU threads copy into two pinned buffers in turn,
// and the bus takes one while the other fills.
#include <ATen/ATen.h>

#include <array>

#include "kernels/gpu/handles.h"

namespace tritonforge::kernels {

class Upload {
 public:
  Upload() = default;  // on the calling thread's device: takes 128 MiB of pinned memory
  // Of one dtype and size; the target contiguous, the source too, or a matrix whose rows are (columns of a larger one).
  // Queued: the source has been read, the target is whole after finish().
  void copy(const at::Tensor& target, const at::Tensor& source);
  void finish() { gpu::check_cuda(gpu::open_cuda_library().stream_synchronize(stream_)); }

 private:
  static constexpr size_t kBytes = size_t{64} << 20;
  struct Half {
    gpu::PinnedMemory memory{kBytes};
    gpu::GpuEvent copied;
  };
  gpu::GpuStream stream_;
  std::array<Half, 2> halves_;
  size_t turn_ = 0;
};

}  // namespace tritonforge::kernels
