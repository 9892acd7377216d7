// libs: tf_train
// Tokens per second of SFT steps on the CPU: the trainer's own passes and autograd's, in turns, and the share of the
// step that its GEMMs must take at the GEMM speed measured beside them (the limit), by the clock and in processor
// seconds, which tell more where others have the cores, too. Then one micro-batch's forward and
// backward pass in fp32 with the head's logits computed once and twice, in turns. Then RL steps of groups of 8 samples,
// each prompt computed once and once a sample, in turns, in processor seconds: of the quickstart's lengths, and of
// longer prompts.
//   train_step [float32|bfloat16] [FOLDER of a config.json] [micro-batch tokens] [rounds] [rl: these steps alone]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>

#include "base/clock.h"
#include "base/rng.h"
#include "model/weights.h"
#include "train/losses.h"
#include "train/pass.h"
#include "train/server.h"
#include "train/trainer.h"

using namespace tritonforge;

namespace {

constexpr int64_t kSequences = 18, kLength = 450;

// The best of several: it stands for what the machine can.
struct Speed {
  double wall = 0, processors = 0;  // FLOP a second, of the clock's and of all processors'
};
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
void raise_to_gemm(Speed& speed, at::ScalarType dtype, int64_t rows, int64_t inner, int64_t columns) {
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::randn({rows, inner}).to(dtype), b = at::randn({columns, inner}).to(dtype);
  at::linear(a, b);
  constexpr int kRuns = 10;
  const double work = 2.0 * kRuns * static_cast<double>(rows * inner * columns);
  for (int round = 0; round < 20; ++round) {
    const auto started = Clock::now();
    const double before = processor_seconds();
    for (int run = 0; run < kRuns; ++run) at::linear(a, b);
    speed.processors = std::max(speed.processors, work / (processor_seconds() - before));
    speed.wall = std::max(speed.wall, work / seconds_since(started));
  }
}

std::vector<TrainSequence> batch(int64_t vocab) {
  Rng rng(1);
  std::vector<TrainSequence> sequences(kSequences);
  for (TrainSequence& s : sequences) {
    for (int64_t t = 0; t < kLength; ++t) {
      s.tokens.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocab))));
      s.loss_mask.push_back(t > 120);
    }
    s.old_log_probs.assign(kLength, 0);
    s.advantages.assign(kLength, 0);
    s.weight_versions.assign(kLength, -1);
  }
  return sequences;
}

struct Path {
  const char* name;
  std::unique_ptr<train::Trainer> trainer;
  std::vector<double> seconds{}, processors{};
  StepMetrics last{};
};

// Eight samples of each of `prompts`, which all begin with the same eight tokens.
std::vector<TrainSequence> groups(int64_t vocab, int64_t prompts, int64_t prompt, int64_t answer) {
  constexpr int64_t kSamples = 8, kCommon = 8;
  Rng rng(2);
  std::vector<TrainSequence> sequences;
  std::vector<int64_t> begin;
  for (int64_t group = 0; group < prompts; ++group) {
    while (std::ssize(begin) < prompt) begin.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocab))));
    for (int64_t sample = 0; sample < kSamples; ++sample) {
      TrainSequence& s = sequences.emplace_back();
      s.tokens = begin;
      for (int64_t t = 0; t < answer; ++t)
        s.tokens.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocab))));
      s.loss_mask.assign(static_cast<size_t>(prompt), 0);
      s.loss_mask.resize(s.tokens.size(), 1);
      s.old_log_probs.assign(s.tokens.size(), -7);
      s.advantages.assign(s.tokens.size(), sample % 2 == 0 ? 1.0f : -1.0f);
      s.weight_versions.assign(s.tokens.size(), 0);
    }
    begin.resize(kCommon);
  }
  return sequences;
}

Path path_of(const char* name, const model::ModelConfig& shape, train::TrainConfig config, bool autograd) {
  config.autograd = autograd;
  model::Model model(shape, config.dtype == "float32" ? at::kFloat : at::kBFloat16, at::kCPU);
  model.init_random(1);
  return {.name = name, .trainer = std::make_unique<train::Trainer>(config, std::move(model), std::nullopt)};
}

// Seconds of a forward and backward pass; `once`: the head's gradient is made in the forward pass.
double pass_seconds(train::Pass& pass, train::Gradients& gradients, const train::MicroBatch& batch, bool once) {
  const train::KnownGradients known = [&](const train::TargetSlice& targets,
                                          const train::TargetScores&) -> train::ScoreGradients {
    return {train::sft_gradient(targets.of(batch.weights)), {}};
  };
  const auto started = Clock::now();
  const train::TargetScores scores = pass.forward(batch, true, once ? known : nullptr);
  pass.backward(once ? train::ScoreGradients{} : known({0, batch.target_count}, scores));
  gradients.empty = true;
  return seconds_since(started);
}

void head_once_and_twice(const model::ModelConfig& shape, const train::TrainConfig& config,
                         const std::vector<TrainSequence>& sequences, int64_t rounds) {
  model::Model model(shape, at::kFloat, at::kCPU);
  model.init_random(1);
  train::Gradients gradients{.sums = model::Model(shape, at::kFloat, at::kCPU)};
  const auto pass = train::make_cpu_pass(model, config, &gradients);
  std::vector<size_t> indices;
  for (int64_t tokens = 0; indices.size() < sequences.size(); indices.push_back(indices.size())) {
    tokens += kLength;
    if (tokens > config.max_tokens_per_micro_batch) break;
  }
  const train::MicroBatch batch = train::make_micro_batch(sequences, indices,
                                                          std::vector<double>(sequences.size(), 1.0), {}, at::kCPU);
  std::vector<double> once, twice, ratios;
  for (int64_t round = 0; round <= rounds; ++round) {
    const double a = pass_seconds(*pass, gradients, batch, true), b = pass_seconds(*pass, gradients, batch, false);
    if (round == 0) continue;
    once.push_back(a);
    twice.push_back(b);
    ratios.push_back(b / a);
  }
  for (auto* each : {&once, &twice, &ratios}) std::sort(each->begin(), each->end());
  const auto tokens = static_cast<double>(batch.tokens);
  fmt::print(
      "head once {:8.0f} tokens/s, twice {:.0f} (medians of a pass of {} tokens); {:.3f} times ({:.3f} to {:.3f})\n",
      tokens / once[once.size() / 2], tokens / twice[twice.size() / 2], batch.tokens, ratios[ratios.size() / 2],
      ratios.front(), ratios.back());
}

void shared_and_whole(const model::ModelConfig& shape, train::TrainConfig config, int64_t prompts, int64_t prompt,
                      int64_t answer, int64_t rounds) {
  const auto sequences = groups(shape.vocab_size, prompts, prompt, answer);
  std::vector<Path> paths;
  for (const bool share : {true, false}) {
    config.share_prefixes = share;
    paths.push_back(path_of(share ? "shared" : "whole", shape, config, false));
  }
  std::vector<double> ratios;
  for (int64_t round = 0; round <= rounds; ++round) {
    for (Path& path : paths) {
      const std::clock_t before = std::clock();
      path.last = path.trainer->train_step(StepKind::kRl, sequences);
      path.seconds.push_back(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
    }
    if (round > 0) ratios.push_back(paths[1].seconds.back() / paths[0].seconds.back());
  }
  std::sort(ratios.begin(), ratios.end());
  fmt::print("RL, {} prompts of {} tokens, 8 answers of {} each, {} rounds\n", prompts, prompt, answer, rounds);
  for (Path& path : paths) {
    path.seconds.erase(path.seconds.begin());  // it warms up
    std::sort(path.seconds.begin(), path.seconds.end());
    fmt::print("{:<9} {:8.2f} processor seconds a step (median; {:.2f} to {:.2f}), {:6.0f} tokens, loss {:.7f}\n",
               path.name, path.seconds[path.seconds.size() / 2], path.seconds.front(), path.seconds.back(),
               path.last.tokens, path.last.loss);
  }
  fmt::print("          {:8.2f} times ({:.2f} to {:.2f})\n", ratios[ratios.size() / 2], ratios.front(), ratios.back());
}

void sft_beside_autograd(const model::ModelConfig& shape, const train::TrainConfig& config, int64_t rounds) {
  const at::ScalarType dtype = config.dtype == "float32" ? at::kFloat : at::kBFloat16;
  std::vector<Path> paths;
  paths.push_back(path_of("ours", shape, config, false));
  paths.push_back(path_of("autograd", shape, config, true));
  const auto sequences = batch(shape.vocab_size);
  Speed gemm;
  for (int64_t round = 0; round <= rounds; ++round) {  // the first one warms up
    for (Path& path : paths) {
      const double before = processor_seconds();
      path.last = path.trainer->train_step(StepKind::kSft, sequences);
      if (round == 0) continue;
      path.seconds.push_back(path.last.seconds);
      path.processors.push_back(processor_seconds() - before);
    }
    raise_to_gemm(gemm, dtype, 2048, shape.hidden_size, 2 * shape.intermediate_size);
  }
  // Forward 2, backward 4 operations a weight and token; the head only where there is a target.
  const double head = static_cast<double>(shape.vocab_size * shape.hidden_size), tokens = paths[0].last.tokens;
  const double body = static_cast<double>(shape.parameter_count()) - head;
  const double work = 6 * (body * tokens + head * paths[0].last.target_tokens), limit = work / gemm.wall;
  fmt::print("{} {} parameters, {} threads, {} tokens a step, micro-batches of {}, {} rounds\n", config.dtype,
             shape.parameter_count(), at::get_num_threads(), tokens, config.max_tokens_per_micro_batch, rounds);
  fmt::print("limit     {:8.0f} tokens/s: the step's GEMMs at the best {:.0f} GFLOP/s of at::linear\n", tokens / limit,
             gemm.wall / 1e9);
  for (Path& path : paths) {
    std::sort(path.seconds.begin(), path.seconds.end());
    const double median = path.seconds[path.seconds.size() / 2];
    fmt::print(
        "{:<9} {:8.0f} tokens/s (median; {:.0f} to {:.0f}), GEMMs {:.2f} of the step (best {:.2f}), loss {:.6f}\n",
        path.name, tokens / median, tokens / path.seconds.back(), tokens / path.seconds.front(), limit / median,
        limit / path.seconds.front(), path.last.loss);
    std::sort(path.processors.begin(), path.processors.end());
    const double cost = path.processors[path.processors.size() / 2];
    fmt::print("          {:8.2f} processor seconds a step (median; {:.2f} to {:.2f}), GEMMs {:.2f} of them\n", cost,
               path.processors.front(), path.processors.back(), work / gemm.processors / cost);
  }
  head_once_and_twice(shape, config, sequences, 4 * rounds);
}

}  // namespace

int main(int argc, char** argv) {
  train::keep_freed_memory();
  const model::ModelConfig shape = model::read_model_config(argc > 2 ? argv[2] : "models/tiny-shape");
  train::TrainConfig config;
  config.model = "none";
  config.dtype = argc > 1 ? argv[1] : "float32";
  config.max_tokens_per_micro_batch = argc > 3 ? std::atoll(argv[3]) : 8192;
  config.validate();
  const int64_t rounds = argc > 4 ? std::atoll(argv[4]) : 5;
  if (argc <= 5) sft_beside_autograd(shape, config, rounds);
  shared_and_whole(shape, config, 8, 120, 330, rounds);
  shared_and_whole(shape, config, 2, 1200, 300, rounds);
}
