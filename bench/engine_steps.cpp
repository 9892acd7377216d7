// libs: tf_engine
// What steps of Qwen3-8B's shape take in the engine alone, without HTTP: the first token of one prompt, prompts at
// once, decodes. Under bench/trace it shows where that goes.
//   engine_steps [device] [prompt] [layers] [most sequences at once] [invariant]
// invariant: with batch_invariant, whose cost this is.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "bench/qwen3_8b.h"

using namespace tritonforge;

namespace {

struct Took {
  double first = 0, whole = 0;  // seconds until the last sequence's first token, until its end
};

// `count` different prompts at once.
Took take(engine::Engine& engine, int64_t count, int64_t prompt, int64_t tokens) {
  static int64_t salt = 0;
  std::vector<std::promise<Took>> done(static_cast<size_t>(count));
  for (auto& promise : done) {
    engine::Request request;
    request.prompt_ids = bench_prompt(prompt, ++salt);
    request.sampling.max_new_tokens = tokens;
    request.sampling.temperature = count == 1 ? 0 : 1;
    request.sampling.ignore_eos = true;
    request.on_output = [&promise](const engine::Output& out) {
      promise.set_value({out.first_token_s, out.latency_s});
    };
    engine.submit(std::move(request)).value();
  }
  Took last;
  for (auto& promise : done) {
    const Took one = promise.get_future().get();
    last = {std::max(last.first, one.first), std::max(last.whole, one.whole)};
  }
  return last;
}

}  // namespace

int main(int argc, char** argv) {
  const auto text = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  log::start("engine_steps");
  kernels::open_device(text(1, "cuda:0"));  // before the seed: ATen looks for its CUDA half once
  engine::EngineOptions options;
  options.model = "random";
  options.device = text(1, "cuda:0");
  options.max_running = 256;
  options.max_context = 8192;
  options.batch_invariant = text(5, "") == "invariant";
  const int64_t prompt = std::stoll(text(2, "1024")), most = std::stoll(text(4, "256"));
  options.kv_cache_tokens = (prompt + 96) * std::max<int64_t>(64, most);  // what the largest load needs: 80 GB hold it
  at::manual_seed(5);
  engine::Engine engine(options, random_qwen3_8b(options.device, std::stoll(text(3, "36"))), nullptr);
  for (int i = 0; i < 4; ++i)
    fmt::print("first token of {}: {:.2f} ms\n", prompt, 1e3 * take(engine, 1, prompt, 1).first);
  for (const int64_t count : {16, 64}) {
    for (int i = 0; i < 3; ++i) {
      const double seconds = take(engine, count, prompt, 1).whole;
      fmt::print("{} prompts at once: {:.1f} ms, {:.0f} tokens/s\n", count, 1e3 * seconds,
                 static_cast<double>(count * prompt) / seconds);
    }
  }
  for (const int64_t count : {1, 8, 64, 256}) {
    if (count > most) break;
    for (int i = 0; i < 2; ++i) {
      const engine::EngineStats before = engine.stats();
      const Took took = take(engine, count, prompt, 65);
      const engine::EngineStats after = engine.stats();
      const int64_t graphs = after.graph_steps - before.graph_steps;
      fmt::print("{} decode: {:.3f} ms a step; {} of {} steps were one launch, of {} kernels and copies\n", count,
                 1e3 * (took.whole - took.first) / 64, graphs, after.steps - before.steps,
                 graphs > 0 ? (after.graph_nodes - before.graph_nodes) / graphs : 0);
    }
  }
  return 0;
}
