#include "train/memory_plan.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "kernels/device.h"
#include "kernels/gpu/cuda_library.h"
#include "parallel/peer_copies.h"
#include "train/gpu/head.h"
#include "train/gpu/host_exchange.h"
#include "train/gpu/layers.h"
#include "train/gpu/products.h"
#include "train/pipeline.h"

namespace tritonforge::train {
namespace {

constexpr int64_t kCode = int64_t{384} << 20;  // of kernels, loaded when they first run
// Of NCCL for a group that sends from rank to rank, or shares out what cannot be divided: as measured on two H200,
// where something arrives. A tensor-parallel group's equal shares take next to nothing.
constexpr int64_t kCommunicator = int64_t{896} << 20;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

struct Free {
  int64_t device, host;
};

// Bytes of a weight.
struct OfWeight {
  int64_t gradient, states;
};
OfWeight of_weight(OptimizerState state) { return state == OptimizerState::kBf16Sr ? OfWeight{2, 4} : OfWeight{4, 12}; }

MemoryPlan with(const model::ModelConfig& shape, int64_t parameters, const TrainConfig& config, const Free& free,
                const Recompute& recompute) {
  const bool on_host = config.optimizer_state == OptimizerState::kCpu;
  const int64_t tokens = config.max_tokens_per_micro_batch;
  const gpu::RankRows rows = gpu::rank_rows(config.parallel, tokens);
  const parallel::ParallelDims& dims = config.parallel;
  // Micro-batches under way, at most: of the first stage, the last one, or the first between them.
  const int64_t waiting = most_waiting({shape.embeds()     ? 0
                                        : shape.predicts() ? dims.pp - 1
                                                           : 1,
                                        dims.pp, dims.pp_chunks});
  const auto passes = [&](bool train) {
    const int64_t head = shape.predicts()
                             ? gpu::Head::bytes(shape, std::min(tokens, rows.shard), config.lm_head_chunk, train)
                             : 0;
    return gpu::Layers::workspace_bytes(shape, rows, train, waiting) + head + gpu::kProductsWorkspace;
  };
  // A pipeline's first stage receives gradients alone, its last one activations.
  const int64_t groups = (dims.cp > 1) + (dims.dp * dims.cp > 1) + !shape.embeds() + !shape.predicts();
  const int64_t staging = dims.dp * dims.cp > 1 && dims.peer_copies ? parallel::kCopiesStaging : 0;
  const OfWeight bytes = of_weight(config.optimizer_state);
  const int64_t states = parameters * bytes.states / (dims.dp * dims.cp);
  return {.gradients = parameters * bytes.gradient,
          .states = on_host ? 0 : states,
          .activations = waiting * gpu::Layers::activation_bytes(shape, rows, recompute) / dims.pp_chunks,
          .workspace = passes(true) + kCode + groups * kCommunicator + staging,
          .reference = config.loss.kl_coef > 0 ? passes(false) : 0,
          .free = free.device,
          .host = on_host ? states + gpu::HostExchange::kBytes : 0,
          .host_free = free.host,
          .recompute = recompute};
}

// From nothing on: q, k and v of one layer after the other, which cost least for what they free, then the rest.
MemoryPlan least_recompute(const model::ModelConfig& shape, int64_t parameters, const TrainConfig& config,
                           const Free& free) {
  const auto plan = [&](int64_t layers, int64_t qkv) { return with(shape, parameters, config, free, {layers, qkv}); };
  for (int64_t qkv = 0; qkv < shape.num_layers; ++qkv) {
    if (MemoryPlan fits = plan(0, qkv); fits.fits()) return fits;
  }
  int64_t layers = 0;
  while (layers < shape.num_layers && !plan(layers, shape.num_layers - layers).fits()) ++layers;
  return plan(layers, shape.num_layers - layers);
}

// The longest micro-batch that fits, in steps of 128 tokens; 0 where none does.
int64_t tokens_that_fit(const model::ModelConfig& shape, int64_t parameters, TrainConfig config, const Free& free) {
  int64_t fits = 0, beyond = config.max_tokens_per_micro_batch / 128;
  while (beyond - fits > 1) {
    const int64_t middle = (fits + beyond) / 2;
    config.max_tokens_per_micro_batch = middle * 128;
    const MemoryPlan plan = with(shape, parameters, config, free, {shape.num_layers, 0});
    (plan.fits() ? fits : beyond) = middle;
  }
  return fits * 128;
}

std::string what_would_fit(const model::ModelConfig& shape, int64_t parameters, const TrainConfig& config,
                           const Free& free) {
  std::vector<std::string> ways;
  if (const MemoryPlan least = least_recompute(shape, parameters, config, free); least.fits())
    ways.push_back(fmt::format("recompute_layers {} would ({:.1f} GiB)", least.recompute.layers, gib(least.total())));
  if (const int64_t tokens = tokens_that_fit(shape, parameters, config, free); tokens > 0 && ways.empty())
    ways.push_back(fmt::format("max_tokens_per_micro_batch {} would, with every layer computed again", tokens));
  TrainConfig other = config;
  for (const OptimizerState state : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    other.optimizer_state = state;
    if (const MemoryPlan plan = least_recompute(shape, parameters, other, free);
        state != config.optimizer_state && plan.fits())
      ways.push_back(fmt::format("optimizer_state {} would ({:.1f} GiB)", name_of(state), gib(plan.total())));
  }
  return ways.empty() ? "no setting does" : fmt::format("{}", fmt::join(ways, "; "));
}

}  // namespace

std::vector<std::string> MemoryPlan::lines() const {
  const auto line = [](const char* what, int64_t bytes, const std::string& more = "") {
    return fmt::format("{:<12} {:8.2f} GiB{}", what, gib(bytes), more);
  };
  const std::string again = recompute.layers + recompute.qkv_layers == 0
                                ? " (all kept)"
                                : fmt::format(" (computed again: {} layers, q, k and v of {} more)", recompute.layers,
                                              recompute.qkv_layers);
  const std::string beside = host == 0 ? ""
                                       : fmt::format(" (and {:.2f} GiB of the host's memory, of {:.2f} for this rank)",
                                                     gib(host), gib(host_free));
  std::vector<std::string> text{line("gradients", gradients), line("optimizer", states, beside),
                                line("activations", activations, again), line("workspace", workspace)};
  if (reference > 0) text.push_back(line("reference", reference));
  if (whole > 0) text.push_back(line("whole model", whole, " (from the first publication on, unless of parts)"));
  text.push_back(line("left", free - total() - whole));
  return text;
}

MemoryPlan plan_memory(const model::ModelConfig& shape, int64_t parameters, const TrainConfig& config, int64_t free,
                       int64_t host_free) {
  const Free both{free, host_free};
  const int64_t layers = std::min(config.recompute_layers, shape.num_layers);  // a stage may have fewer
  const MemoryPlan plan = layers < 0 ? least_recompute(shape, parameters, config, both)
                                     : with(shape, parameters, config, both,
                                            {layers, std::min(config.recompute_qkv_layers, shape.num_layers - layers)});
  if (plan.fits()) return plan;
  const std::string ways = what_would_fit(shape, parameters, config, both);
  if (plan.host > host_free) {
    fail(ErrorKind::kUsage,
         "optimizer_state {} needs {:.1f} GiB of the host's memory for each rank, and {:.1f} are free: {}",
         name_of(config.optimizer_state), gib(plan.host), gib(host_free), ways);
  }
  fail(ErrorKind::kUsage,
       "micro-batches of {} tokens need {:.1f} GiB beside the weights (gradients and optimizer {:.1f}, activations "
       "{:.1f}, workspace {:.1f}), and {:.1f} are free: {}",
       config.max_tokens_per_micro_batch, gib(plan.total()), gib(plan.gradients + plan.states), gib(plan.activations),
       gib(plan.workspace + plan.reference), gib(free), ways);
}

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         dynamic_cast<const tritonforge::gpu::OutOfMemory*>(&error) != nullptr ||
         std::string_view(error.what()).find("can't allocate memory") != std::string_view::npos;  // ATen's, on the CPU
}

std::string out_of_memory(const std::exception& error, const TrainConfig& config, const MemoryPlan* plan,
                          at::Device device) {
  const std::string_view said = error.what();
  const std::string planned = plan == nullptr
                                  ? ""
                                  : fmt::format(" (the plan: {:.1f} GiB of {:.1f}, {:.1f} of it activations)",
                                                gib(plan->total()), gib(plan->free), gib(plan->activations));
  return fmt::format(
      "out of memory with {:.1f} GiB in use and {:.1f} free{}: take fewer max_tokens_per_micro_batch (now {}), more "
      "recompute_layers (now {}) or, on a GPU, a smaller optimizer_state (now {}): {}",
      gib(kernels::used_memory(device)), gib(kernels::free_memory(device)), planned, config.max_tokens_per_micro_batch,
      config.recompute_layers, name_of(config.optimizer_state), said.substr(0, said.find('\n')));
}

}  // namespace tritonforge::train
