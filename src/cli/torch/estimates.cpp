#include "cli/torch/estimates.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <thread>

#include "base/json.h"
#include "engine/attention_paged.h"
#include "engine/gpu_buffers.h"
#include "engine/sizing.h"
#include "model/tensor_parallel.h"
#include "orchestrate/run_context.h"
#include "train/flops.h"
#include "train/memory_plan.h"
#include "train/pipeline.h"
#include "train/token_shards.h"

namespace tritonforge::cli {
namespace {

using orchestrate::Degrees;
using orchestrate::GpuKind;
using orchestrate::Parts;
using orchestrate::Plan;
using orchestrate::PlannedProcess;
using orchestrate::RecipeConfig;
using orchestrate::StepTime;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kOfPeak = 0.55;       // docs/performance.md, "A training step on a GPU"
constexpr double kAgain = 0.14;        // of a step, where every layer is computed again (the same)
constexpr double kOfBandwidth = 0.75;  // of a decode step
constexpr double kOfLink = 0.8;
constexpr double kNetwork = 25e9;  // bytes a second between hosts, where a group is on several
// CUDA context and code of libraries: the same 2.1 GiB in four configurations of the trainer that were measured, 0.6 of
// an engine (docs/performance.md, where cudaMemGetInfo is compared with the plans).
constexpr double kTrainerContext = 2.1 * kGib, kEngineContext = 0.6 * kGib;
// Verdicts a second: timed ones of one H200 with 14 workers (docs/results.md, "Times of plan mode"), those of one core,
// the half of two cores' (docs/performance.md, "New kernels a second of the evaluator").
constexpr double kVerdictsOfGpu = 20.5, kVerdictsOfCore = 18.5;
// A core with AVX-512 in fp32, and its part of the memory's bandwidth.
constexpr double kCoreFlops = 40e9, kCoreBandwidth = 8e9;
constexpr double kProcess = 0.32 * kGib;  // of a process with libtorch, before any model

model::ModelConfig shape_of(const RecipeConfig& config) {
  const fs::path model = orchestrate::resolve_path(config.model.path);
  if (fs::is_regular_file(model) || fs::exists(model / "config.json")) return model::read_model_config(model);
  if (config.model.shape.empty())
    fail(ErrorKind::kNotFound,
         "model.path: no such folder or file: {} (to plan without it, name its config.json: model.shape)",
         config.model.path);
  const fs::path file = orchestrate::resolve_path(config.model.shape);
  return model::model_config_from_json(parse_json(read_file(file), file.string()), file.string());
}

double bytes_of(const std::string& dtype) { return dtype == "float32" ? 4 : 2; }
double count(int64_t n) { return static_cast<double>(n); }
// Of the engine's cache, a token.
double cache_bytes(const model::ModelConfig& shape, const engine::EngineOptions& options, at::ScalarType dtype) {
  return count(engine::KvCache::bytes_per_token(shape, engine::cache_dtype(options, dtype)));
}
model::Stage first_stage(const Degrees& d) { return {0, d.pp, d.pp_chunks}; }
// In flight, by the first stage, which has the most.
double micro_batches_kept(const Degrees& d) { return count(train::most_waiting(first_stage(d))) / count(d.pp_chunks); }

train::MemoryPlan trainer_plan(const model::ModelConfig& shape, const train::TrainConfig& train, const Degrees& degrees,
                               double free) {
  const model::ModelConfig part = rank_shape(shape, degrees);
  const int64_t parameters = rank_parameters(shape, degrees);
  train::TrainConfig config = train;
  if (config.recompute_layers > part.num_layers) config.recompute_layers = part.num_layers;
  config.parallel = degrees.dims(train.parallel);
  return train::plan_memory(part, parameters, config, static_cast<int64_t>(free - kTrainerContext) - 2 * parameters);
}

// The nearest degrees that fit where `degrees` do not: one axis doubled, at most twice.
std::string what_would_fit(const model::ModelConfig& shape, const train::TrainConfig& train, const Degrees& degrees,
                           double free) {
  for (const int64_t factor : {2, 4, 8}) {
    for (const auto& [axis, member] :
         {std::pair{"tp", &Degrees::tp}, {"dp", &Degrees::dp}, {"pp", &Degrees::pp}, {"cp", &Degrees::cp}}) {
      Degrees more = degrees;
      more.*member *= factor;
      try {
        const Parts parts = trainer_memory(shape, train, more, free);
        double sum = 0;
        for (const auto& [name, bytes] : parts) sum += bytes;
        return fmt::format("; {} {} would ({:.1f} GiB a rank on {} GPUs)", axis, more.*member, sum / kGib,
                           more.tp * more.cp * more.pp * more.dp);
      } catch (const Error&) {
        continue;  // neither does that
      }
    }
  }
  return "; no degrees up to eight times these do";
}

class Estimator {
 public:
  Estimator(Plan& plan, const RecipeConfig& config)
      : plan_(plan),
        config_(config),
        shape_(shape_of(config)),
        gpu_(orchestrate::gpu_kind(config.placement.gpu)),
        on_gpu_(config.model.device.starts_with("cuda")) {}

  void run() {
    add_memory();
    note_host_memory();
    if (config_.has_stage("sft")) plan_.steps.push_back(sft_step());
    if (config_.has_stage("rl")) plan_.steps.push_back(rl_step());
  }

 private:
  // Memory: the trainer first, which takes what it needs, then the engines, which take of what is left.
  void add_memory() {
    std::map<std::pair<std::string, int64_t>, double> taken;  // of each GPU
    const auto key = [&](const PlannedProcess& process, size_t i) {
      return std::pair{process.place.host, process.place.gpus.empty() ? 0 : process.place.gpus[i]};
    };
    const auto limit = [&](const PlannedProcess& process) { return gpu_.memory - taken[key(process, 0)]; };
    for (PlannedProcess& process : plan_.processes) {
      if (process.role != "trainer") continue;
      if (!on_gpu_) {
        process.memory = cpu_trainer();
        continue;
      }
      process.limit = limit(process);
      process.memory = largest_stage(process.limit);
      taken[key(process, 0)] += process.bytes();
    }
    for (PlannedProcess& process : plan_.processes) {
      if (process.group != "rollout") continue;
      process.limit = on_gpu_ ? limit(process) : 0;
      process.memory = on_gpu_ ? engine_memory(shape_, config_.engine, plan_.layout.engine_degrees, process.limit)
                               : cpu_engine();
      if (on_gpu_ && process.bytes() > process.limit) refuse_engine(process);
      for (size_t i = 0; on_gpu_ && i < std::max<size_t>(1, process.place.gpus.size()); ++i)
        taken[key(process, i)] += process.bytes();
    }
    // Last, since it takes what is left: the model that rank 0 puts together to publish it, unless every rank sends its
    // part of it.
    const auto whole = 2 * shape_.parameter_count();
    const Degrees& degrees = plan_.layout.actor_degrees;
    const bool in_parts = orchestrate::is_apart(plan_.layout) && config_.placement.weights == "group";
    for (PlannedProcess& process : plan_.processes) {
      if (process.role != "trainer" || process.rank > 0 || !on_gpu_ || degrees.tp * degrees.pp == 1) continue;
      if (!config_.has_stage("rl") || in_parts) continue;
      const double left = gpu_.memory - taken[key(process, 0)];
      if (train::puts_together_on_gpu(whole, static_cast<int64_t>(left)))
        process.memory.emplace_back("whole model", count(whole));
    }
  }

  void note_host_memory() {
    for (const auto& [stage, train] : {std::pair{"sft", &config_.sft.train}, {"rl", &config_.rl.train}}) {
      if (!on_gpu_ || !config_.has_stage(stage) || train->optimizer_state != train::OptimizerState::kCpu) continue;
      const int64_t host = trainer_plan(shape_, *train, plan_.layout.actor_degrees, gpu_.memory).host;
      plan_.notes.push_back(
          fmt::format("{}.train.optimizer_state cpu: {:.1f} GiB of the host's memory for each rank of the trainer; the "
                      "time of its update is not in a step's",
                      stage, count(host) / kGib));
    }
    const bool engines = std::ranges::any_of(plan_.processes, [](const auto& p) { return p.group == "rollout"; });
    if (on_gpu_ && engines && config_.engine.kv_host_tokens > 0) {
      const double each = cache_bytes(shape_, config_.engine, at::kBFloat16);
      plan_.notes.push_back(fmt::format("engine.kv_host_tokens: {:.1f} GiB of the host's memory for each engine",
                                        each * count(config_.engine.kv_host_tokens) / kGib));
    }
  }

  Parts largest_stage(double free) const {
    Parts largest;
    double most = -1;
    for (const auto& [stage, train] : {std::pair{"sft", &config_.sft.train}, {"rl", &config_.rl.train}}) {
      if (!config_.has_stage(stage)) continue;
      Parts parts;
      try {
        parts = trainer_memory(shape_, *train, plan_.layout.actor_degrees, free);
      } catch (const Error& error) {
        fail(ErrorKind::kUsage, "{}.train: {}{}", stage, error.what(),
             what_would_fit(shape_, *train, plan_.layout.actor_degrees, free));
      }
      double sum = 0;
      for (const auto& [name, bytes] : parts) sum += bytes;
      if (sum > most) largest = parts;
      most = std::max(most, sum);
    }
    return largest;
  }

  [[noreturn]] void refuse_engine(const PlannedProcess& process) const {
    const Degrees& degrees = plan_.layout.engine_degrees;
    const double each = cache_bytes(shape_, config_.engine, at::kBFloat16) / count(degrees.tp);
    const double beside = process.bytes() - process.memory[2].second;
    const auto fits = static_cast<int64_t>((process.limit - beside) / each) / engine::kBlockSize * engine::kBlockSize;
    fail(ErrorKind::kUsage, "{}: {:.1f} GiB are needed and {:.1f} are there: {}", process.role, process.bytes() / kGib,
         process.limit / kGib,
         fits > 0 ? fmt::format("engine.kv_cache_tokens {} would fit", fits)
                  : fmt::format("placement.rollout.tp {} would fit", 2 * degrees.tp));
  }

  // fp32: weights, gradients, two moments, what one micro-batch keeps of each layer, one chunk of logits.
  Parts cpu_trainer() const {
    const Degrees& degrees = plan_.layout.actor_degrees;
    const model::ModelConfig c = rank_shape(shape_, degrees);
    const double p = count(rank_parameters(shape_, degrees));
    const train::TrainConfig& train = config_.has_stage("rl") ? config_.rl.train : config_.sft.train;
    const double tokens = count(train.max_tokens_per_micro_batch / degrees.cp);
    const double width = count(3 * c.hidden_size + 2 * (c.num_heads + 2 * c.num_kv_heads) * c.head_dim +
                               3 * c.intermediate_size);
    return {{"process", kProcess},
            {"weights", 4 * p},
            {"gradients", 4 * p},
            {"optimizer", 8 * p / count(degrees.dp * degrees.cp)},
            {"activations", 4 * tokens * width * count(c.num_layers) * micro_batches_kept(degrees)},
            {"logits", 4 * std::min(tokens, count(train.lm_head_chunk)) * count(c.vocab_size)}};
  }

  Parts cpu_engine() const {
    const engine::EngineOptions& options = config_.engine;
    const double each = cache_bytes(shape_, options, at::kFloat);
    const double machine = count(::sysconf(_SC_PHYS_PAGES)) * count(::sysconf(_SC_PAGE_SIZE));
    const double cache = options.kv_cache_tokens > 0 ? each * count(options.kv_cache_tokens) : machine / 4;
    Parts parts{{"process", kProcess},
                {"weights", bytes_of(config_.model.dtype) * count(shape_.parameter_count())},
                {options.kv_cache_tokens > 0 ? "KV cache" : "KV cache, at most", cache}};
    if (options.kv_host_tokens > 0) parts.emplace_back("put back", each * count(options.kv_host_tokens));
    return parts;
  }

  // Time.
  double devices() const { return count(static_cast<int64_t>(plan_.layout.actor.size())); }
  double cores(const orchestrate::Place& place) const {
    return place.cores.empty() ? count(std::max(1U, std::thread::hardware_concurrency()))
                               : count(static_cast<int64_t>(place.cores.size()));
  }

  // Sequences of a step, `groups` times so many of `length` tokens that begin with the same `common` ones.
  struct Sequences {
    double groups, samples, length, common, targets;  // the last: of all, learned from
    double tokens() const { return groups * (common + samples * (length - common)); }
  };
  double flops_of(const Sequences& all) const {
    const train::TrainingFlops flops(shape_);
    const auto common = static_cast<int64_t>(all.common), rest = static_cast<int64_t>(all.length) - common;
    return all.groups * (flops.of_run(0, common) + all.samples * flops.of_run(common, rest)) +
           flops.target * all.targets;
  }

  // One forward and backward pass over them, and the update.
  Parts training(const train::TrainConfig& train, const Sequences& all) const {
    const Degrees& d = plan_.layout.actor_degrees;
    const double tokens = all.tokens(), flops = flops_of(all);
    const double again = train.recompute_layers > 0
                             ? kAgain * std::min(1.0, count(train.recompute_layers) / count(shape_.num_layers))
                             : 0;
    const double rate = on_gpu_ ? gpu_.flops * kOfPeak : kCoreFlops * cores(plan_.layout.actor.front());
    const double compute = flops * (1 + again) / (rate * devices());
    Parts parts{{"compute", compute}};
    const double wire = on_gpu_ ? 2 : 4;               // bytes of an activation
    const double local = tokens / count(d.dp * d.cp);  // tokens of a rank's tensor parallel group
    const double layers = count(shape_.num_layers) / count(d.pp);
    const auto add = [&](const char* axis, int64_t stride, int64_t size, double bytes) {
      if (size > 1) parts.emplace_back(axis, bytes / bytes_per_second(stride, size));
    };
    // Two all-gathers and two reduce-scatters a layer, forward and backward.
    add("tensor parallel", 1, d.tp, 8 * layers * local * count(shape_.hidden_size) * wire * (1 - 1 / count(d.tp)));
    const double q = count(shape_.num_heads * shape_.head_dim) / count(d.tp),
                 kv = count(2 * shape_.num_kv_heads * shape_.head_dim) / count(d.tp);
    // q, k, v to heads and the output back, forward and backward; or keys and values to each other rank, forward and
    // backward, and their gradients, in fp32, behind them and home.
    add("context parallel", d.tp, d.cp,
        layers * local *
            (d.cp_form == parallel::CpForm::kUlysses ? 2 * wire * (1 - 1 / count(d.cp)) * (2 * q + kv)
                                                     : kv * (2 * wire * count(d.cp - 1) + 4 * count(d.cp))));
    // A rank's own rows onward, their gradients back, once a chunk.
    add("pipeline's messages", d.tp * d.cp * d.dp, d.pp,
        2 * count(d.pp_chunks) * local / count(d.tp) * count(shape_.hidden_size) * wire);
    // Gradients reduced, weights gathered, among those with equal weights.
    const double weight = bytes_of_gradient(train) + bytes_of(config_.model.dtype);
    add("data parallel", d.tp, d.cp * d.dp, count(rank_parameters(shape_, d)) * weight * (1 - 1 / count(d.dp * d.cp)));
    const double batches = std::max(1.0, tokens / count(d.dp) / count(train.max_tokens_per_micro_batch));
    if (d.pp > 1) parts.emplace_back("pipeline's bubble", compute * count(d.pp - 1) / count(d.pp_chunks) / batches);
    return parts;
  }
  double bytes_of_gradient(const train::TrainConfig& train) const {
    return on_gpu_ && train.optimizer_state == train::OptimizerState::kBf16Sr ? 2 : 4;
  }
  // Of a group of the trainer's ranks, `size` of them, each `stride` behind the one before (parallel::ParallelDims):
  // of the network, where any such group is on several hosts.
  double bytes_per_second(int64_t stride, int64_t size) const {
    const std::vector<orchestrate::Place>& ranks = plan_.layout.actor;
    bool one_host = on_gpu_;
    for (int64_t rank = 0; rank < std::ssize(ranks); ++rank) {
      const int64_t first = rank - rank / stride % size * stride;
      one_host = one_host && ranks[static_cast<size_t>(rank)].host == ranks[static_cast<size_t>(first)].host;
    }
    return kOfLink * (one_host ? gpu_.link : kNetwork);
  }

  StepTime sft_step() const {
    const orchestrate::SftSection& sft = config_.sft;
    const double length = count(sft.max_sequence), most = count(sft.tokens_per_step);
    const double limit = sft.sequences_per_step > 0 ? count(sft.sequences_per_step) : most;
    const double sequences = std::max(1.0, std::min(limit, std::floor(most / length)));
    const double targets = std::min(most, limit * length);
    StepTime step{.stage = "sft", .seconds = training(sft.train, {sequences, 1, length, 0, targets})};
    for (const auto& [name, seconds] : step.seconds) step.total += seconds;
    return step;
  }

  StepTime rl_step() const {
    const orchestrate::RlSection& rl = config_.rl;
    const double samples = count(rl.prompts_per_step * rl.samples_per_prompt), turns = count(config_.rollout.max_turns);
    const double answer = count(rl.sampling.max_new_tokens) / 2;
    const double context = std::min(count(config_.rollout.max_context), 2 * answer * turns);
    // Each engine goes through its samples, max_running at a time.
    const double engines = std::max(1.0, count(static_cast<int64_t>(plan_.layout.engines.size())));
    const double mine = std::ceil(samples / engines), running = std::min(mine, count(config_.engine.max_running));
    const double weights = bytes_of(config_.model.dtype) * count(shape_.parameter_count());
    const double each = bytes_of(config_.model.dtype) *
                        count(2 * shape_.num_layers * shape_.num_kv_heads * shape_.head_dim);
    const double tp = count(plan_.layout.engine_degrees.tp), place_cores = cores(plan_.layout.engines.front());
    const double bandwidth = on_gpu_ ? gpu_.bandwidth * kOfBandwidth * tp : kCoreBandwidth * place_cores;
    const double flops = (on_gpu_ ? gpu_.flops * kOfPeak * tp : kCoreFlops * place_cores);
    const double decode = std::max((weights + running * context / 2 * each) / bandwidth,
                                   2 * running * count(shape_.parameter_count()) / flops);
    const double generate = turns * answer * std::ceil(mine / running) * decode;
    const double gpus = count(static_cast<int64_t>(std::max<size_t>(1, plan_.layout.eval.gpus.size())));
    const double judged = config_.evaluator.on_gpu()
                              ? kVerdictsOfGpu * gpus
                              : kVerdictsOfCore * std::min(count(config_.evaluator.workers), cores(plan_.layout.eval));
    const double evaluate = turns * samples / judged;
    // What is not answers, in equal parts before each turn: the first one is the group's.
    const Degrees& degrees = plan_.layout.actor_degrees;
    const bool ring = degrees.cp > 1 && degrees.cp_form == parallel::CpForm::kRing;
    const bool shared = rl.train.share_prefixes && !rl.train.autograd && !ring;
    const double prompt = shared ? std::max(0.0, context / turns - answer) : 0;
    Parts trained = training(rl.train, {count(rl.prompts_per_step), count(rl.samples_per_prompt), context, prompt,
                                        samples * answer * turns});
    double train = 0;
    for (const auto& [name, seconds] : trained) train += seconds;
    const bool own_gpus = plan_.layout.given && !plan_.layout.rollout_shares;
    const double install = weights / (!on_gpu_ ? 1e9 : own_gpus ? gpu_.link * kOfLink : gpu_.bandwidth / 2);
    StepTime step{.stage = "rl", .seconds = {{"generation", generate}, {"verdicts", evaluate}}};
    step.seconds.insert(step.seconds.end(), trained.begin(), trained.end());
    step.seconds.emplace_back("new weights", install);
    // Verdicts of the first turns are made while others generate; training waits for both unless it may lag behind.
    const double rollout = std::max(generate, evaluate);
    step.total = rl.max_staleness > 0 ? std::max(rollout, train) + install : rollout + train + install;
    return step;
  }

  Plan& plan_;
  const RecipeConfig& config_;
  const model::ModelConfig shape_;
  const GpuKind& gpu_;
  const bool on_gpu_;
};

}  // namespace

model::ModelConfig rank_shape(const model::ModelConfig& shape, const Degrees& d) {
  const model::ModelConfig part = model::part_of(shape, d.tp);
  train::TokenShards::attention_of(part, d.cp, d.cp_form);  // refused here as it would be there
  return model::stage_of(part, first_stage(d));
}

int64_t rank_parameters(const model::ModelConfig& shape, const Degrees& degrees) {
  return rank_shape(shape, degrees).parameter_count();
}

Parts trainer_memory(const model::ModelConfig& shape, const train::TrainConfig& train, const Degrees& degrees,
                     double free) {
  const int64_t weights = 2 * rank_parameters(shape, degrees);
  const train::MemoryPlan plan = trainer_plan(shape, train, degrees, free);
  Parts parts{{"context", kTrainerContext},
              {"weights", count(weights)},
              {"gradients", count(plan.gradients)},
              {"optimizer", count(plan.states)},
              {"activations", count(plan.activations)},
              {"workspace", count(plan.workspace)}};
  if (plan.reference > 0) parts.emplace_back("reference", count(plan.reference + weights));
  return parts;
}

Parts engine_memory(const model::ModelConfig& shape, const engine::EngineOptions& options, const Degrees& degrees,
                    double free) {
  const model::ModelConfig c = rank_shape(shape, degrees);
  engine::Sizes sizes = engine::size_step(options, c, at::Device(at::kCUDA, 0));
  const bool fp8 = engine::fp8_matrices(options, at::kBFloat16);
  const double weights = 2 * count(rank_parameters(shape, degrees)) - (fp8 ? count(c.matrix_elements()) : 0);
  // Of a step's tokens bf16 in each buffer of GpuBuffers, fp32 logits of the rows that draw.
  const int64_t qkv = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim;
  const bool ranks = degrees.tp > 1;  // what one reads of another is not written over at once
  const int64_t width = (ranks ? 4 : 3) * c.hidden_size + qkv + 2 * c.num_heads * c.head_dim + 3 * c.intermediate_size;
  const int64_t vocab = shape.vocab_size + (ranks ? c.vocab_size : 0);
  const double workspace = 2 * count(sizes.step_tokens * width) + 4 * count(options.max_running * vocab) +
                           4 * count(sizes.max_context * c.head_dim) + 64 * 1024.0 * 1024 +
                           4 * count(engine::widened_pages(options, sizes) * engine::kBlockSize) *
                               count(c.num_kv_heads * c.head_dim) +
                           (fp8 ? 4 * count(c.intermediate_size * c.hidden_size) : 0);
  const double graphs = 112 * 1024.0 * 1024 + (options.cuda_graphs ? 128 * 25 * 1024.0 * count(c.num_layers) : 0);
  const double each = cache_bytes(c, options, at::kBFloat16);
  const double share = 0.9 * (free - kEngineContext - weights - workspace - graphs);
  const double wanted = options.kv_cache_tokens > 0
                            ? each * count(options.kv_cache_tokens)
                            : std::min(share, each * count(options.max_running * sizes.max_context));
  const double least = each * count(sizes.max_context);
  return {{"context", kEngineContext},
          {"weights", weights},
          {"KV cache", options.kv_cache_tokens > 0 ? wanted : std::max(wanted, std::min(least, each * 1024))},
          {"graphs and code", graphs},
          {"workspace", workspace}};
}

void estimate(Plan& plan, const RecipeConfig& config) {
  if (config.model.is_chat()) return;  // its server's to know
  Estimator(plan, config).run();
}

}  // namespace tritonforge::cli
