#pragma once
// A process group of torch.distributed's that a trainer makes to broadcast weights to engines, as SGLang's
// init_custom_process_group() joins it: a TCPStore at the trainer's address, in which the group's name is the prefix,
// and rank 0 sends. (python/sglang/srt/utils/common.py, torch/distributed/distributed_c10d.py)
#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "base/clock.h"

namespace tritonforge::weights {

struct GroupPlace {
  std::string master_address;
  int master_port = 0;
  int rank = 0, world_size = 0;  // rank 0 listens at the port
  std::string name, backend;     // backend: gloo | nccl
};

class BroadcastGroup {
 public:
  virtual ~BroadcastGroup() = default;
  // Everybody's `tensor`, contiguous, becomes rank 0's. Throws kUnavailable where a rank is gone, or does not come
  // before the deadline: then the group is of no use any more.
  virtual void broadcast(const at::Tensor& tensor, Deadline deadline) = 0;
  virtual at::Device device() const = 0;  // on which tensors are to lie
};

// Returns once all ranks are there. device: the engine's; NCCL needs a GPU, and Gloo's tensors lie on the host. Throws
// kUsage for ranks that are none, kUnsupported for another backend or one that the device has not, kUnavailable where
// the others do not come in time.
std::unique_ptr<BroadcastGroup> join_group(const GroupPlace& place, at::Device device, Deadline deadline);

}  // namespace tritonforge::weights
