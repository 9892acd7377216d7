// libs: tf_train
// Tokens per second of one SFT step on the quickstart's model shape, and the share of the step that its GEMMs must take
// at the GEMM speed measured beside it (the limit).
//   train_step [float32|bfloat16] [hidden] [layers] [vocab] [micro-batch tokens] [steps]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "base/rng.h"
#include "train/server.h"
#include "train/trainer.h"

using namespace tritonforge;

namespace {

constexpr int64_t kSequences = 18, kLength = 450;

double gemm_flops_per_s(at::ScalarType dtype, int64_t rows, int64_t inner, int64_t columns) {
  const at::NoGradGuard no_grad;
  const at::Tensor a = at::randn({rows, inner}).to(dtype), b = at::randn({columns, inner}).to(dtype);
  at::linear(a, b);
  int64_t runs = 0;
  const auto started = Clock::now();
  while (seconds_since(started) < 0.5) {
    at::linear(a, b);
    ++runs;
  }
  return 2.0 * static_cast<double>(rows * inner * columns * runs) / seconds_since(started);
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

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int64_t fallback) { return argc > i ? std::atoll(argv[i]) : fallback; };
  train::keep_freed_memory();
  model::ModelConfig shape;
  shape.hidden_size = argument(2, 256);
  shape.num_layers = argument(3, 6);
  shape.vocab_size = argument(4, 1536);
  shape.intermediate_size = 3 * shape.hidden_size;
  shape.head_dim = 32;
  shape.num_heads = shape.hidden_size / shape.head_dim;
  shape.num_kv_heads = std::max<int64_t>(1, shape.num_heads / 2);
  shape.max_position = 1024;
  shape.tie_embeddings = true;
  train::TrainConfig config;
  config.model = "none";
  config.dtype = argc > 1 ? argv[1] : "float32";
  config.max_tokens_per_micro_batch = argument(5, 2048);
  config.validate();
  const at::ScalarType dtype = config.dtype == "float32" ? at::kFloat : at::kBFloat16;
  model::Model model(shape, dtype, at::kCPU);
  model.init_random(1);
  train::Trainer trainer(config, std::move(model), std::nullopt);
  const auto sequences = batch(shape.vocab_size);
  trainer.train_step(StepKind::kSft, sequences);
  const int64_t steps = argument(6, 5);
  double tokens = 0, targets = 0, best = 1e30;
  const auto started = Clock::now();
  for (int64_t i = 0; i < steps; ++i) {
    const StepMetrics step = trainer.train_step(StepKind::kSft, sequences);
    tokens += step.tokens;
    targets += step.target_tokens;
    best = std::min(best, step.seconds);
  }
  const double seconds = seconds_since(started);
  // Forward 2, backward 4 operations a weight and token; the head only where there is a target.
  const double head = static_cast<double>(shape.vocab_size * shape.hidden_size);
  const double body = static_cast<double>(shape.parameter_count()) - head;
  const double flops = 6 * (body * tokens + head * targets);
  const double gemm = gemm_flops_per_s(dtype, config.max_tokens_per_micro_batch, shape.hidden_size,
                                       shape.intermediate_size);
  fmt::print("{} {} parameters, {} threads, micro-batches of {} tokens\n", config.dtype, shape.parameter_count(),
             at::get_num_threads(), config.max_tokens_per_micro_batch);
  fmt::print(
      "ours   {:9.0f} tokens/s (best step {:.0f})\nlimit  {:9.0f} tokens/s (GEMMs alone, {:.0f} GFLOP/s)\nratio  "
      "{:9.2f} of the step is GEMM\n",
      tokens / seconds, tokens / static_cast<double>(steps) / best, tokens / (flops / gemm), gemm / 1e9,
      flops / gemm / seconds);
}
