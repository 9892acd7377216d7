#include "weights/nccl_comm.h"

#include <chrono>
#include <thread>

#include "base/error.h"

namespace tritonforge::weights {

NcclComm::NcclComm(std::string name, const gpu::NcclId& id, int64_t rank, int64_t ranks, Deadline deadline)
    : name_(std::move(name)), api_(gpu::open_cuda_library()) {
  check(api_.nccl_open_within(&comm_, &id, static_cast<int>(rank), static_cast<int>(ranks), deadline.remaining_s()));
}

NcclComm::~NcclComm() { api_.nccl_abort(comm_); }

void NcclComm::broadcast(void* x, int64_t bytes, Deadline deadline, gpu::Stream stream) {
  check(api_.nccl_broadcast_within(comm_, x, bytes, /*root=*/0, deadline.remaining_s(), stream));
}

void NcclComm::wait(const gpu::GpuEvent& ended, Deadline deadline) const {
  while (!ended.done()) {  // no call that waits for it could be ended
    check(api_.nccl_look(comm_));
    if (deadline.expired()) fail(ErrorKind::kUnavailable, "{}: nothing came in time", name_);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void NcclComm::check(int error) const {
  if (error != 0) fail(ErrorKind::kUnavailable, "{}: {}", name_, api_.last_error());
}

}  // namespace tritonforge::weights
