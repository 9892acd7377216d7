// libs: tf_train
// SFT steps of a pipeline on the CPU, a process and a thread a stage, with one and with more chunks of layers a stage
// in turns: the time of a step, and which part of it each stage stood still, beside what the order of the passes says.
//   train_pipeline [stages] [micro-batches] [rounds] [chunks...]      2 4 9 1 2
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/process.h"
#include "base/rng.h"
#include "model/weights.h"
#include "train/pipeline.h"
#include "train/ranks.h"
#include "train/server.h"

using namespace tritonforge;

namespace {

constexpr int64_t kLayers = 16, kLength = 512;

// Micro-batches of one sequence each.
std::vector<TrainSequence> batch(int64_t count, int64_t vocab) {
  Rng rng(1);
  std::vector<TrainSequence> sequences(static_cast<size_t>(count));
  for (TrainSequence& s : sequences) {
    for (int64_t t = 0; t < kLength; ++t)
      s.tokens.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(vocab))));
    s.loss_mask.assign(s.tokens.size(), true);
    s.loss_mask[0] = false;  // nothing predicts it
    s.old_log_probs.assign(s.tokens.size(), 0);
    s.advantages.assign(s.tokens.size(), 0);
    s.weight_versions.assign(s.tokens.size(), -1);
  }
  return sequences;
}

struct Case {
  int64_t chunks;
  std::string rendezvous;
  std::unique_ptr<parallel::World> world{};
  std::unique_ptr<train::Trainer> trainer{};
  std::vector<double> seconds{}, still{};
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void start(Case& c, int64_t stages, int64_t rank, const model::ModelConfig& shape) {
  train::TrainConfig config;
  config.model = "none";
  config.dtype = "float32";
  config.max_tokens_per_micro_batch = kLength;
  config.parallel.pp = stages;
  config.parallel.pp_chunks = c.chunks;
  parallel::WorldOptions place;
  place.rank = rank;
  place.rendezvous = c.rendezvous;
  c.world = train::join_ranks(config, place);
  model::Model model(model::stage_of(shape, {rank, stages, c.chunks}), at::kFloat, at::kCPU);
  model.init_random(1);
  c.trainer = std::make_unique<train::Trainer>(config, std::move(model), std::nullopt, train::DeviceRate{},
                                               c.world.get());
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  const int64_t stages = number(1, 2), batches = number(2, 4), rounds = number(3, 9);
  std::vector<Case> cases;
  for (int i = 4; i < std::max(argc, 6); ++i)
    cases.push_back({.chunks = number(i, i - 3), .rendezvous = fmt::format("127.0.0.1:{}", free_port())});
  int64_t rank = 0;
  for (int64_t other = 1; other < stages && rank == 0; ++other) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rank = other;
  }
  train::keep_freed_memory();
  at::set_num_threads(1);
  model::ModelConfig shape = model::read_model_config("models/tiny-shape");
  shape.num_layers = kLayers;
  const auto sequences = batch(batches, shape.vocab_size);
  for (Case& c : cases) start(c, stages, rank, shape);
  for (int64_t round = 0; round <= rounds; ++round) {  // the first one takes memory
    for (Case& c : cases) {
      const StepMetrics step = c.trainer->train_step(StepKind::kSft, sequences);
      if (round == 0) continue;
      c.seconds.push_back(step.seconds);
      c.still.push_back(step.seconds_communication / step.seconds);
    }
  }
  for (const Case& c : cases) {  // stage after stage
    for (int64_t turn = 0; turn < stages; ++turn) {
      c.world->host().all_reduce(at::zeros({1}), "who speaks")->wait();
      if (turn != rank) continue;
      const double ahead = static_cast<double>(stages - 1) / static_cast<double>(c.chunks);
      fmt::print(
          "{} stages x {} chunks, {} micro-batches, stage {}: {:6.1f} ms (median; {:.1f} to {:.1f}), {:4.1f} % of it "
          "standing still; by its order {:.1f} %\n",
          stages, c.chunks, batches, rank, 1e3 * median(c.seconds), 1e3 * std::ranges::min(c.seconds),
          1e3 * std::ranges::max(c.seconds), 100 * median(c.still),
          100 * ahead / (static_cast<double>(batches) + ahead));
      std::fflush(stdout);
    }
  }
  for (Case& c : cases) {
    c.trainer.reset();
    c.world.reset();
  }
  while (rank == 0 && wait(nullptr) > 0) {}
}
