// libs: tf_engine tf_train
// SFT steps of Qwen3-8B's layers with the head on a GPU, as shared tools measure them for peers: forward, backward,
// clipping, AdamW. Prints milliseconds, tokens/s, model FLOPs utilisation (causal FLOPs over 989 TFLOP/s, recompute not
// counted) and the memory in use.
//   train_gpu [cuda:0] [layers 8] [tokens 8192] [steps 8] [CASE ...]
//   train_gpu dp2 ... : so many data-parallel ranks, a process and a GPU each, with so many tokens each; tp2, cp2,
//   ring2 (cp's other form), pp2: ranks that have so many tokens together
// CASE: fp32 | bf16_sr | cpu | autograd, then any of +recompute (all layers), +qkv (q, k and v of all layers are
// computed again), +batches8 (so many sequences, a micro-batch each, as a pipeline wants them), +packed (16 sequences
// of 300 to 900 tokens; train_packed_peer.py is its peer), +prompts250 (eight sequences after each other begin with the
// same so many tokens, without a target, as the answers to one prompt; computed once), +groups (the packed lengths as
// answers behind such prompts of 1,500) and +whole (the prompt is then computed with every answer), +varied (of the
// packed lengths: other ones in every step, as training has them), +deterministic, +nccl (of dp and cp: gradients and
// weights go by NCCL, not by the copy engines), +snapshot (then the time that a checkpoint stops the trainer for).
// Cases take turns only by being run twice: the order of the arguments is the order of the runs.
#include <ATen/ATen.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/process.h"
#include "base/rng.h"
#include "bench/qwen3_8b.h"
#include "kernels/device.h"
#include "train/checkpoint.h"
#include "train/pipeline.h"
#include "train/ranks.h"
#include "train/trainer.h"

using namespace tritonforge;

namespace {

constexpr double kPeak = 989e12;

std::vector<TrainSequence> batch(const std::vector<int64_t>& lengths, int64_t vocab) {
  Rng rng(1);
  std::vector<TrainSequence> sequences(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    TrainSequence& s = sequences[i];
    for (int64_t t = 0; t <= lengths[i]; ++t) {
      s.tokens.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocab))));
      s.loss_mask.push_back(t > 0);
    }
    s.old_log_probs.assign(s.tokens.size(), 0);
    s.advantages.assign(s.tokens.size(), 0);
    s.weight_versions.assign(s.tokens.size(), -1);
  }
  return sequences;
}

// Sixteen lengths of 300 to 900 tokens behind a prompt.
std::vector<int64_t> packed_lengths(uint64_t seed, int64_t prompt = 0) {
  Rng rng(seed);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 16; ++i) lengths.push_back(prompt + 300 + static_cast<int64_t>(rng.below(601)));
  return lengths;
}

// Makes each eight sequences the answers to one prompt of so many tokens, which has no target.
void give_prompts(std::vector<TrainSequence>& sequences, int64_t prompt) {
  constexpr size_t kAnswers = 8;
  for (size_t i = 0; i < sequences.size(); ++i) {
    std::copy_n(sequences[i / kAnswers * kAnswers].tokens.begin(), prompt, sequences[i].tokens.begin());
    std::fill_n(sequences[i].loss_mask.begin(), prompt, 0);
  }
}

// What a case trains on in step `step`; lengths are those of one data-parallel rank, and all have the same.
struct Batches {
  std::vector<int64_t> lengths;
  int64_t prompt = 0, behind = 0;  // tokens that answers share; what packed lengths lie behind
  bool varied = false;
  std::vector<TrainSequence> of(int64_t step, int64_t vocab, int64_t dp) const {
    const auto mine = varied ? packed_lengths(static_cast<uint64_t>(100 + step), behind) : lengths;
    std::vector<int64_t> all;
    for (int64_t i = 0; i < dp; ++i) all.insert(all.end(), mine.begin(), mine.end());
    auto sequences = batch(all, vocab);
    give_prompts(sequences, prompt);
    return sequences;
  }
};

struct Ranks {
  parallel::ParallelDims dims;
  int64_t rank = 0;
  std::string rendezvous;  // of the next case
};

void run(const std::string& name, const std::string& device, int64_t layers, int64_t tokens, int64_t steps,
         const Ranks& ranks) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const model::ModelConfig shape = qwen3_8b(layers);
  train::TrainConfig config;
  config.model = "none";
  config.device = device;
  config.autograd = has("autograd");
  config.deterministic = has("deterministic");
  if (!config.autograd)
    config.optimizer_state = from_name<train::OptimizerState>(name.substr(0, name.find('+')), "case");
  config.recompute_layers = has("+recompute") ? layers : 0;
  config.recompute_qkv_layers = has("+qkv") ? layers : 0;
  config.max_tokens_per_micro_batch = tokens + 1;
  config.lm_head_chunk = config.autograd ? 1024 : 4096;
  config.parallel = ranks.dims;
  config.parallel.peer_copies = !has("+nccl");
  config.share_prefixes = !has("+whole");
  const auto number_behind = [&](const char* part) {  // 0: the case has no such part
    return has(part) ? std::atoll(name.c_str() + name.find(part) + std::strlen(part)) : 0;
  };
  Batches batches{.lengths = {tokens}, .prompt = number_behind("+prompts"), .varied = has("+varied")};
  if (has("+batches")) batches.lengths.resize(static_cast<size_t>(number_behind("+batches")), tokens);
  if (has("+packed")) {
    batches.lengths = packed_lengths(2);
    if (ranks.rank == 0 && !batches.varied) fmt::print("packed: {}\n", fmt::join(batches.lengths, ","));
  }
  if (has("+groups")) {
    batches.prompt = batches.behind = 1500;
    batches.lengths = packed_lengths(3, batches.behind);
  }
  parallel::WorldOptions place;
  place.rank = ranks.rank;
  place.rendezvous = ranks.rendezvous;
  const auto world = train::join_ranks(config, place);
  train::set_up_thread(config, world.get());
  const parallel::Coordinates at = world != nullptr ? world->at() : parallel::Coordinates{};
  auto model = random_qwen3_8b(device, layers, ranks.dims.tp, train::stage_at(config.parallel, at));
  at::globalContext().setDeterministicAlgorithms(config.deterministic, true);
  train::Trainer trainer(config, std::move(*model), std::nullopt, {}, world.get());
  std::vector<double> seconds, tokens_per_s, flops_per_s;
  StepMetrics metrics;
  for (int64_t step = -3; step < steps; ++step) {  // the first ones load kernels and choose products
    metrics = trainer.train_step(StepKind::kSft, batches.of(step, shape.vocab_size, ranks.dims.dp));
    if (step < 0) continue;
    seconds.push_back(metrics.seconds);
    tokens_per_s.push_back(metrics.tokens / metrics.seconds);
    flops_per_s.push_back(metrics.tflops * 1e12);
  }
  if (ranks.rank > 0) return;
  for (auto* figures : {&seconds, &tokens_per_s, &flops_per_s}) std::sort(figures->begin(), figures->end());
  const auto median = [](const std::vector<double>& figures) { return figures[figures.size() / 2]; };
  fmt::print("{:<34} {:7.1f} ms ({:.1f} to {:.1f})  {:7.0f} tokens/s  MFU {:4.1f} %  {:5.1f} GiB  loss {:.4f}\n", name,
             median(seconds) * 1e3, seconds.front() * 1e3, seconds.back() * 1e3, median(tokens_per_s),
             100 * median(flops_per_s) / kPeak / static_cast<double>(ranks.dims.world()), metrics.memory_gib,
             metrics.loss);
  for (size_t part = 0; part < kPartFigures.size(); ++part) {
    if (metrics.part_seconds[part] > 0.0005)
      fmt::print("    {} {:.1f} ms", names_of(StepPart())[part], metrics.part_seconds[part] * 1e3);
  }
  if (ranks.dims.world() > 1)
    fmt::print("    standing still for other ranks {:.1f} ms", metrics.seconds_communication * 1e3);
  fmt::print("\n");
  if (!has("+snapshot")) return;
  train::Snapshot snapshot;
  for (const char* which : {"first copy for a checkpoint (takes pinned memory)", "next"}) {
    const auto started = Clock::now();
    snapshot.take(trainer);
    fmt::print("    {}: {:.2f} s for {:.1f} GiB\n", which, seconds_since(started),
               static_cast<double>(train::Snapshot::bytes(trainer)) / (1 << 30));
  }
}

// "dp2", "tp2", "cp2", "ring2", "pp2", "tp2dp2": the ranks are processes, this one the first. Where it ends, they do.
Ranks fork_ranks(const std::string& argument, size_t cases, std::vector<std::string>& rendezvous) {
  Ranks ranks;
  for (const auto& [axis, degree] : {std::pair{std::string("tp"), &ranks.dims.tp},
                                     {"cp", &ranks.dims.cp},
                                     {"ring", &ranks.dims.cp},
                                     {"pp", &ranks.dims.pp},
                                     {"dp", &ranks.dims.dp}}) {
    const size_t at = argument.find(axis);
    if (at != std::string::npos) *degree = std::atoll(argument.c_str() + at + axis.size());
  }
  if (argument.find("ring") != std::string::npos) ranks.dims.cp_form = parallel::CpForm::kRing;
  if (ranks.dims.world() == 1) return ranks;
  for (size_t i = 0; i < cases; ++i) rendezvous.push_back(fmt::format("127.0.0.1:{}", free_port()));
  std::fflush(stdout);
  for (int64_t rank = 1; rank < ranks.dims.world(); ++rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ranks.rank = rank;
    break;
  }
  return ranks;
}

}  // namespace

int main(int argc, char** argv) {
  std::string device = argc > 1 ? argv[1] : "cuda:0";
  const auto number = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const int64_t layers = number(2, 8), tokens = number(3, 8192), steps = number(4, 8);
  std::vector<std::string> cases(argv + std::min(argc, 5), argv + argc);
  if (cases.empty()) cases = {"fp32", "bf16_sr", "bf16_sr+recompute", "bf16_sr+packed"};
  std::vector<std::string> rendezvous;
  Ranks ranks = fork_ranks(device, cases.size(), rendezvous);
  if (ranks.dims.world() > 1) device = fmt::format("cuda:{}", ranks.rank);
  if (ranks.rank == 0) fmt::print("{} layers of Qwen3-8B, {} tokens, {} steps after 3\n", layers, tokens, steps);
  if (ranks.dims.world() > 1 && ranks.rank == 0)
    fmt::print("ranks: tp {} x cp {} ({}) x pp {} x dp {}\n", ranks.dims.tp, ranks.dims.cp, name_of(ranks.dims.cp_form),
               ranks.dims.pp, ranks.dims.dp);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!rendezvous.empty()) ranks.rendezvous = rendezvous[i];
    run(cases[i], device, layers, tokens, steps, ranks);
    at::getDeviceAllocator(at::kCUDA)->emptyCache();
    std::fflush(stdout);
  }
  while (ranks.rank == 0 && wait(nullptr) > 0) {}
}
