// libs: tf_train tf_engine
// New weights of Qwen3-8B's shape from a trainer's process to engines under full load, by each way that they can take
// (the GPU's own memory, shared memory), and how long nobody got a token. Each process sees its own GPU alone, as in a
// placed run.
//   weight_update [GPUs of the engines, one each: 0,1] [trainer's GPU] [updates of each way] [sequences] [layers]
// 256 sequences want 88 GB for their keys and values, 64 of them 22. A line of one way: seconds to publish and until
// the last engine has installed, the longest time between two steps around an update beside the median one, and, with
// generation paused first, from the pause to the first new token of the last one. Medians of all updates and (min to
// max). After the last update of each way greedy tokens must be the same ones: it fails otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <sstream>
#include <string>

#include "base/error.h"
#include "bench/weight_engine.h"
#include "bench/weight_trainer.h"

using namespace tritonforge;

namespace {

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Of several engines, all at once.
class Fleet {
 public:
  Fleet(const std::vector<std::string>& gpus, const std::vector<std::string>& arguments) {
    for (const std::string& gpu : gpus) engines_.push_back(std::make_unique<WeightEngine>(arguments, gpu));
  }
  std::vector<Json> post(const char* path, const Json& body = Json::object()) {
    std::vector<std::future<Json>> asked;
    for (const auto& engine : engines_)
      asked.push_back(std::async(std::launch::async, [&] { return engine->post(path, body).value(); }));
    std::vector<Json> replies;
    for (auto& reply : asked) replies.push_back(reply.get());
    return replies;
  }

 private:
  std::vector<std::unique_ptr<WeightEngine>> engines_;
};

double largest(const std::vector<Json>& replies, const char* field) {
  double most = 0;
  for (const Json& reply : replies) most = std::max(most, reply.at(field).get<double>());
  return most;
}

struct Figures {
  std::vector<double> publish, install, longest, stop;
};

std::string figure(std::vector<double> values, double scale) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", scale * values[values.size() / 2], scale * values.front(),
                     scale * values.back());
}

engine::EngineOptions engine_options(int64_t sequences) {
  engine::EngineOptions options;
  options.model = "random";
  options.device = "cuda";
  options.max_running = sequences;
  options.max_context = 16384;
  options.kv_cache_tokens = 2344 * sequences;  // prompts, and what is decoded while five updates are measured
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto text = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  if (text(1, "") == "trainer")
    return run_weight_trainer(std::stoi(argv[3]), *random_qwen3_8b("cuda", std::stoll(argv[2])));
  if (text(1, "") == "engine")
    return run_weight_engine(std::stoi(argv[4]), engine_options(std::stoll(argv[3])),
                             random_qwen3_8b("cuda", std::stoll(argv[2])));
  std::vector<std::string> gpus;
  std::istringstream list(text(1, "0"));
  for (std::string gpu; std::getline(list, gpu, ',');) gpus.push_back(gpu);
  const std::string trainer_gpu = text(2, "0"), sequences = text(4, "256"), layers = text(5, "36");
  const int64_t updates = std::stoll(text(3, "5"));

  WeightTrainer trainer({"trainer", layers}, trainer_gpu);
  Fleet engines(gpus, {"engine", layers, sequences});

  // Shared memory is taken at the first publications.
  int64_t version = 0;
  const auto started = Clock::now();
  for (int i = 0; i < 2; ++i) trainer.publish(++version, "shm");
  fmt::print("the first two files: {:.1f} s\n", seconds(Clock::now() - started));

  std::vector<Json> expected;
  for (const std::string way : {"device", "shm"}) {
    Figures figures;
    engines.post("/load", {{"sequences", std::stoll(sequences)}});
    double median = 0;
    for (int64_t i = 0; i < updates; ++i) {
      for (const bool paused : {false, true}) {
        trainer.change();
        engines.post("/steps", {{"wait", 30}});
        const auto start = Clock::now();
        if (paused) engines.post("/pause");
        PublishedWeights published = trainer.publish(++version, way);
        if (way == "device") published.path.clear();  // no other way
        const auto middle = Clock::now();
        engines.post("/update", to_json(published));
        const auto end = Clock::now();
        if (paused) {
          engines.post("/resume");
          figures.stop.push_back(seconds(Clock::now() - start));
          continue;
        }
        figures.publish.push_back(seconds(middle - start));
        figures.install.push_back(seconds(end - middle));
        const std::vector<Json> steps = engines.post("/steps", {{"wait", 30}});
        figures.longest.push_back(largest(steps, "longest"));
        median = largest(steps, "median");
      }
    }
    const std::vector<Json> tokens = engines.post("/tokens");
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
