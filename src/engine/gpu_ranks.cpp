#include "engine/gpu_ranks.h"

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/gpu/tensors.h"

namespace tritonforge::engine {

std::string GpuRanks::refusal(const model::Parts& parts) {
  if (parts.size() > gpu::kMostRanks) return fmt::format("{} ranks are more than {}", parts.size(), gpu::kMostRanks);
  const auto& api = gpu::open_cuda_library();
  for (int64_t rank = 0; rank < parts.size(); ++rank) {
    for (int64_t other = 0; other < parts.size(); ++other) {
      int can = 0;
      if (rank == other) continue;
      gpu::check_cuda(api.peer_can(parts[rank].device().index(), parts[other].device().index(), &can));
      if (can == 0)
        return fmt::format("{} has no peer access to {}", parts[rank].device().str(), parts[other].device().str());
    }
  }
  return "";
}

GpuRanks::GpuRanks(const model::Parts& parts)
    : parts_(parts), buffers_(static_cast<size_t>(parts.size())), stop_(sizeof(uint32_t)) {
  wait_again();
  const auto& api = gpu::open_cuda_library();
  for (int64_t rank = 0; rank < parts.size(); ++rank) {
    gpu::check_cuda(api.set_device(parts[rank].device().index()));
    for (int64_t other = 0; other < parts.size(); ++other)
      if (other != rank) gpu::check_cuda(api.peer_enable(parts[other].device().index()));
  }
}

const gpu::Bf16* GpuRanks::table(int64_t rank) const { return gpu::bits(parts_[rank].embed_tokens()); }

}  // namespace tritonforge::engine
