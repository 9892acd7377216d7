#pragma once
// A communicator of NCCL's whose ranks may go at any time: nothing here waits for one of them longer than it is told
// to.
#include <ATen/ATen.h>

#include <string>

#include "base/clock.h"
#include "kernels/gpu/handles.h"

namespace tritonforge::weights {

class NcclComm {
 public:
  // On the calling thread's current device. `name`: for messages. As everything below throws kUnavailable where the
  // other ranks do not come in time, or one is gone.
  NcclComm(std::string name, const gpu::NcclId& id, int64_t rank, int64_t ranks, Deadline deadline);
  ~NcclComm();  // ends what is under way
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // Queued: x [bytes] on the device becomes rank 0's.
  void broadcast(void* x, int64_t bytes, Deadline deadline, gpu::Stream stream);
  // For an event behind a broadcast.
  void wait(const gpu::GpuEvent& ended, Deadline deadline) const;

 private:
  void check(int error) const;

  const std::string name_;
  const gpu::CudaApi& api_;
  gpu::NcclComm* comm_ = nullptr;
};

}  // namespace tritonforge::weights
