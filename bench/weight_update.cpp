// libs: tf_train tf_engine
// New weights of Qwen3-8B's shape from a trainer's process to an engine under full load, by each way that they can take
// (the GPU's own memory, shared memory), and how long nobody got a token.
//   weight_update [engine's device] [trainer's device] [updates of each way] [sequences] [layers]
// A line of one way: seconds to publish and to install, the longest time between two steps around an update beside the
// median one, and, with generation paused first, from the pause to the first new token. Medians of all updates and
// (min to max). After the last update of each way greedy tokens must be the same ones: it fails otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>

#include "base/error.h"
#include "bench/qwen3_8b.h"
#include "bench/weight_trainer.h"

using namespace tritonforge;

namespace {

constexpr int64_t kAnswer = 12000;  // tokens: more steps than are taken

struct Load {
  std::mutex mutex;
  std::condition_variable came;
  std::vector<Clock::time_point> steps;  // at which the first sequence got a token
  Clock::time_point last() {
    const std::lock_guard lock(mutex);
    return steps.empty() ? Clock::time_point() : steps.back();
  }
  void wait_steps(size_t more) {
    std::unique_lock lock(mutex);
    const size_t target = steps.size() + more;
    TF_CHECK(came.wait_for(lock, std::chrono::seconds(120), [&] { return steps.size() >= target; }), "no steps");
  }
};

void start_load(engine::Engine& engine, Load& load, int64_t sequences) {
  for (int64_t i = 0; i < sequences; ++i) {
    engine::Request request;
    request.prompt_ids = bench_prompt(512, i);
    request.sampling.max_new_tokens = kAnswer;
    request.sampling.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.stream = i == 0;
    if (i == 0) {
      request.on_output = [&load](const engine::Output&) {
        const std::lock_guard lock(load.mutex);
        load.steps.push_back(Clock::now());
        load.came.notify_all();
      };
    }
    engine.submit(std::move(request)).value();
  }
  load.wait_steps(50);
}

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

struct Figures {
  std::vector<double> publish, install, longest, stop;
};

std::string figure(std::vector<double> values, double scale) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", scale * values[values.size() / 2], scale * values.front(),
                     scale * values.back());
}

}  // namespace

int main(int argc, char** argv) {
  const auto text = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  if (text(1, "") == "trainer")
    return run_weight_trainer(std::stoi(argv[4]), *random_qwen3_8b(argv[2], std::stoll(argv[3])));
  const std::string device = text(1, "cuda:0"), trainer_device = text(2, device.c_str());
  const int64_t updates = std::stoll(text(3, "5")), sequences = std::stoll(text(4, "256")),
                layers = std::stoll(text(5, "36"));

  WeightTrainer trainer({"trainer", trainer_device, std::to_string(layers)});
  engine::EngineOptions options;
  options.model = "random";
  options.device = device;
  options.max_running = sequences;
  options.max_context = 16384;
  options.kv_cache_tokens = 600000;
  engine::Engine engine(options, random_qwen3_8b(device, layers), nullptr);

  // Shared memory is taken at the first publications.
  int64_t version = 0;
  const auto started = Clock::now();
  for (int i = 0; i < 2; ++i) trainer.publish(++version, "shm");
  fmt::print("the first two files: {:.1f} s\n", seconds(Clock::now() - started));

  std::vector<int64_t> expected;
  for (const std::string way : {"device", "shm"}) {
    Figures figures;
    Load load;
    start_load(engine, load, sequences);
    double median = 0;
    for (int64_t i = 0; i < updates; ++i) {
      for (const bool paused : {false, true}) {
        trainer.change();
        load.wait_steps(30);
        const auto start = Clock::now();
        if (paused) engine.pause();
        const PublishedWeights published = trainer.publish(++version, way);
        const auto middle = Clock::now();
        engine.update_weights(published).value();
        const auto end = Clock::now();
        if (paused) {
          engine.resume();
          load.wait_steps(1);
          figures.stop.push_back(seconds(load.last() - start));
          continue;
        }
        figures.publish.push_back(seconds(middle - start));
        figures.install.push_back(seconds(end - middle));
        load.wait_steps(30);
        const std::lock_guard lock(load.mutex);
        std::vector<double> gaps;
        double longest = 0;
        for (size_t s = load.steps.size() - 1; s > 0; --s) {
          const double gap = seconds(load.steps[s] - load.steps[s - 1]);
          gaps.push_back(gap);
          if (load.steps[s] >= start) longest = std::max(longest, gap);
        }
        std::sort(gaps.begin(), gaps.end());
        median = gaps[gaps.size() / 2];
        figures.longest.push_back(longest);
      }
    }
    engine.abort_all("measured");
    const auto tokens = greedy_tokens(engine);
    if (expected.empty()) expected = tokens;
    TF_CHECK(tokens == expected, "{}: greedy tokens differ", way);
    fmt::print(
        "{:6} publish {} ms, install {} ms, longest step {} ms (median step {:.1f}), stop to first token {} ms\n", way,
        figure(figures.publish, 1e3), figure(figures.install, 1e3), figure(figures.longest, 1e3), 1e3 * median,
        figure(figures.stop, 1e3));
    std::fflush(stdout);
  }
  return 0;
}
