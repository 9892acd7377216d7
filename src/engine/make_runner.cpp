#include "engine/make_runner.h"

#include <c10/core/CachingDeviceAllocator.h>

#include "base/log.h"
#include "engine/aten_runner.h"
#include "engine/gpu_runner.h"
#include "kernels/device.h"

namespace tritonforge::engine {
namespace {

// The cache's share of what is free: a quarter of the machine's memory; of an accelerator's nine tenths beside the
// runner's own, or six tenths where attention gathers its keys into new memory at every step.
constexpr double kCpuShare = 0.25, kOwnShare = 0.9, kAtenShare = 0.6;

int64_t weight_bytes(const model::Model& model) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : model.named_parameters()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace

SizedRunner make_runner(const EngineOptions& options, const model::Model& model) {
  const at::Device device = model.device();
  const model::ModelConfig& config = model.config();
  const std::string refusal = GpuRunner::refusal(options, model);
  const bool own = refusal.empty();
  if (!own && device.is_cuda()) log::warn("computing with libtorch's operations, not the own GPU kernels: {}", refusal);

  // What is left beside the weights and the runner's own buffers.
  if (!device.is_cpu()) at::getDeviceAllocator(device.type())->emptyCache();
  SizedRunner made{size_step(options, config, device), nullptr};
  const int64_t free = kernels::free_memory(device),
                workspace = own ? GpuRunner::workspace_bytes(options, made.sizes, config) : 0;
  const double share = device.is_cpu() ? kCpuShare : own ? kOwnShare : kAtenShare;
  size_cache(made.sizes, options, config, model.dtype(), device,
             static_cast<int64_t>(share * static_cast<double>(free - workspace)));

  if (!device.is_cpu()) {
    const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
    const int64_t cache = made.sizes.blocks * kBlockSize * KvCache::bytes_per_token(config, model.dtype());
    log::info("memory of {}: weights {:.2f} GiB, buffers {:.2f} GiB, KV cache {:.2f} GiB ({} tokens), left {:.2f} GiB",
              device.str(), gib(weight_bytes(model)), gib(workspace), gib(cache), (made.sizes.blocks - 1) * kBlockSize,
              gib(free - workspace - cache));
  }
  if (own) made.runner = std::make_unique<GpuRunner>(options, made.sizes, model);
  else made.runner = std::make_unique<AtenRunner>(options, made.sizes, model);
  return made;
}

}  // namespace tritonforge::engine
