#include "engine/make_runner.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "engine/aten_runner.h"
#include "engine/gpu_buffers.h"
#include "engine/gpu_runner.h"
#include "engine/team_runner.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"

namespace tritonforge::engine {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// The cache's share of what is free: a quarter of the machine's memory; of an accelerator's nine tenths beside the
// runner's own, or six tenths where attention gathers its keys into new memory at every step.
constexpr double kCpuShare = 0.25, kOwnShare = 0.9, kAtenShare = 0.6;

void check_host_has(const EngineOptions& options, const MemoryPlan& plan, int64_t free) {
  if (plan.host * options.tp <= free) return;
  const int64_t each = plan.host / plan.host_tokens * options.tp;
  fail(ErrorKind::kMachine,
       "--kv-host-tokens {} takes {:.1f} GiB of the host's memory, which has {:.1f} GiB free: at most {} tokens",
       plan.host_tokens, static_cast<double>(each * plan.host_tokens) / kGiB, static_cast<double>(free) / kGiB,
       std::max<int64_t>(free, 0) / each);
}

// Sets the cache's blocks, too. model: a rank's part.
MemoryPlan plan_memory(const EngineOptions& options, const model::Model& model, bool own, Sizes& sizes) {
  const at::Device device = model.device();
  MemoryPlan plan;
  const auto workspace = [&] { return own ? place_gpu_buffers(options, sizes, model.config()).bytes : 0; };
  plan.weights = static_cast<int64_t>(model.arena().nbytes()) + model.stored_bytes() + model.packed_bytes();
  plan.graphs = own ? GpuRunner::graph_bytes(options, model.config()) : 0;
  const int64_t rest = kernels::free_memory(device) - plan.graphs;
  const at::ScalarType cached = cache_dtype(options, model.dtype());
  const double share = device.is_cpu() ? kCpuShare / static_cast<double>(options.tp) : own ? kOwnShare : kAtenShare;
  size_cache(sizes, options, model.config(), cached, device,
             static_cast<int64_t>(share * static_cast<double>(rest - workspace())));
  plan.workspace = workspace();  // the context may be shorter now
  plan.cache = sizes.blocks * kBlockSize * KvCache::bytes_per_token(model.config(), cached);
  plan.cache_tokens = (sizes.blocks - 1) * kBlockSize;
  plan.host_tokens = sizes.host_blocks * kBlockSize;
  plan.host = plan.host_tokens * KvCache::bytes_per_token(model.config(), cached);
  if (plan.host > 0) check_host_has(options, plan, kernels::free_memory(at::kCPU) - (device.is_cpu() ? plan.cache : 0));
  plan.left = rest - plan.workspace - plan.cache;
  if (plan.left < 0 && options.kv_cache_tokens > 0) {
    const int64_t fit = std::max<int64_t>(plan.left + plan.cache, 0);
    fail(ErrorKind::kMachine,
         "--kv-cache-tokens {} takes {:.1f} GiB, and {} has {:.1f} GiB free for it: at most {} tokens",
         plan.cache_tokens, static_cast<double>(plan.cache) / kGiB, device.str(), static_cast<double>(fit) / kGiB,
         fit / KvCache::bytes_per_token(model.config(), cached));
  }
  return plan;
}

// On a GPU batches change no bits by the own kernels for Hopper alone.
void check_batch_invariant(const at::Device device, const std::string& refusal) {
  if (!refusal.empty()) fail(ErrorKind::kUnsupported, "--batch-invariant needs the own kernels, and {}", refusal);
  if (const std::string other = gpu::no_hopper(device.index()); !other.empty())
    fail(ErrorKind::kUnsupported, "--batch-invariant needs a Hopper GPU, and {}", other);
}

// Whether the own kernels compute it; where not on a GPU, the log says why. Nothing else reads an FP8 cache.
bool by_own_kernels(const EngineOptions& options, const model::Parts& parts, const std::string& refusal) {
  const bool on_gpu = parts.first().device().is_cuda();
  if (options.kv_cache_dtype == CacheDtype::kFp8 && (on_gpu ? !refusal.empty() : options.rows_attention))
    fail(ErrorKind::kUnsupported, "--kv-cache-dtype fp8_e4m3 needs the own kernels, and {}",
         on_gpu ? refusal : "--rows-attention is on");
  if (options.batch_invariant && on_gpu) check_batch_invariant(parts.first().device(), refusal);
  if (!refusal.empty() && on_gpu)
    log::warn("computing with libtorch's operations, not the own GPU kernels: {}", refusal);
  return refusal.empty();
}

SizedRunner planned(const EngineOptions& options, const model::Model& model, bool own) {
  const at::Device device = model.device();
  if (!device.is_cpu()) at::getDeviceAllocator(device.type())->emptyCache();
  SizedRunner made{size_step(options, model.config(), device), {}, nullptr};
  made.plan = plan_memory(options, model, own, made.sizes);
  return made;
}

void tell_plan(const MemoryPlan& plan, at::Device device) {
  for (const std::string& line : plan.lines()) log::info("memory of {}: {}", device.str(), line);
}

}  // namespace

SizedRunner make_runner(const EngineOptions& options, const model::Model& model) {
  const bool own = by_own_kernels(options, model, GpuRunner::refusal(options, model));
  SizedRunner made = planned(options, model, own);
  tell_plan(made.plan, model.device());
  if (own) made.runner = std::make_unique<GpuRunner>(options, made.sizes, model);
  else made.runner = std::make_unique<AtenRunner>(options, made.sizes, model);
  return made;
}

SizedRunner make_team_runner(const EngineOptions& options, const model::Parts& parts) {
  std::string refusal = GpuRunner::refusal(options, parts.first());
  if (refusal.empty()) refusal = GpuRanks::refusal(parts);
  const bool own = by_own_kernels(options, parts, refusal);

  // As many tokens for every rank as the one with the least memory can have.
  Sizes least = planned(options, parts.first(), own).sizes;
  for (int64_t rank = 1; rank < parts.size(); ++rank) {
    const Sizes sizes = planned(options, parts[rank], own).sizes;
    if (sizes.blocks < least.blocks) least = sizes;
  }
  EngineOptions agreed = options;
  agreed.kv_cache_tokens = (least.blocks - 1) * kBlockSize;
  agreed.max_context = least.max_context;
  SizedRunner made = planned(agreed, parts.first(), own);
  tell_plan(made.plan, parts.first().device());
  log::info("{} ranks of tensor parallelism, each with as much", parts.size());

  auto gpus = own ? std::make_unique<GpuRanks>(parts) : nullptr;
  auto team = std::make_unique<RankTeam>(parts.size(), parts.first().device().is_cpu() ? threads_of_rank(options) : 1,
                                         [gpus = gpus.get()] {
                                           if (gpus != nullptr) gpus->let_go();
                                         });
  const auto make = [&, ranks = team.get(), shared = gpus.get()](int64_t rank) -> std::unique_ptr<Runner> {
    if (own) return std::make_unique<GpuRunner>(agreed, made.sizes, parts[rank], shared, rank);
    return std::make_unique<AtenRunner>(agreed, made.sizes, parts[rank], &ranks->together(rank));
  };
  made.runner = std::make_unique<TeamRunner>(std::move(team), std::move(gpus), parts, make);
  return made;
}

int64_t threads_of_rank(const EngineOptions& options) {
  if (options.tp == 1) return options.threads;
  const int64_t all = options.threads > 0 ? options.threads : std::thread::hardware_concurrency();
  return std::max<int64_t>(1, all / options.tp);
}

}  // namespace tritonforge::engine
