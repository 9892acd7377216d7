// libs: tf_engine
// What an engine of Qwen3-8B's shape takes of a GPU beside what its plan says, and how long it takes to give all of it
// back and to take it again.
//   engine_memory [device] [sleeps] [sequences] [layers]
// The load: `sequences` requests of 512 tokens that end one after another, so that every size of step is run, half of
// them with top_p. Each sleep comes in the middle of such a load of its own. Fails where a request under way is lost or
// greedy tokens are others afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bench/qwen3_8b.h"

using namespace tritonforge;

namespace {

struct Load {
  std::mutex mutex;
  std::condition_variable came;
  size_t under_way = 0, tokens = 0;
  void wait(const std::function<bool()>& enough) {
    std::unique_lock lock(mutex);
    TF_CHECK(came.wait_for(lock, std::chrono::seconds(300), enough), "the load does not go on");
  }
};

void start(engine::Engine& engine, Load& load, int64_t sequences) {
  load.under_way = static_cast<size_t>(sequences);
  for (int64_t i = 0; i < sequences; ++i) {
    engine::Request request;
    request.prompt_ids = bench_prompt(512, i);
    request.sampling.max_new_tokens = 20 + 4 * i;
    request.sampling.ignore_eos = true;
    request.sampling.seed = static_cast<uint64_t>(i);
    if (i % 2 == 0) request.sampling.top_p = 0.95;
    request.stream = true;
    request.on_output = [&load](const engine::Output& output) {
      const std::lock_guard lock(load.mutex);
      const engine::Sample& sample = output.samples[0];
      load.tokens += sample.output_ids.size();
      TF_CHECK(sample.finish != engine::FinishReason::kAbort, "a request was lost: {}", sample.abort_message);
      if (output.finished) --load.under_way;
      load.came.notify_all();
    };
    engine.submit(std::move(request)).value();
  }
}

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

}  // namespace

int main(int argc, char** argv) {
  const auto text = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  log::start("engine_memory");  // TRITONFORGE_LOG=debug tells of every CUDA graph
  const at::Device device = kernels::open_device(text(1, "cuda:0"));
  const int64_t sleeps = std::stoll(text(2, "3")), sequences = std::stoll(text(3, "256")),
                layers = std::stoll(text(4, "36"));
  kernels::synchronize(device);  // a context is there
  const int64_t before = kernels::free_memory(device);
  const auto used = [&] { return before - kernels::free_memory(device); };

  engine::EngineOptions options;
  options.model = "random";
  options.device = text(1, "cuda:0");
  options.max_running = sequences;
  options.max_context = 16384;
  engine::Engine engine(options, random_qwen3_8b(options.device, layers), nullptr);
  const engine::MemoryPlan plan = engine.info().memory;
  for (const std::string& line : plan.lines()) fmt::print("plan: {}\n", line);
  const auto beside_plan = [&](const char* when) {
    fmt::print("{:<17} {:.2f} GiB used, {:.2f} planned: {:+.2f} %\n", when, gib(used()), gib(plan.total()),
               100.0 * static_cast<double>(used() - plan.total()) / static_cast<double>(plan.total()));
    std::fflush(stdout);
  };
  beside_plan("after the start");
  const auto expected = greedy_tokens(engine);
  beside_plan("one request");
  {
    Load load;
    start(engine, load, sequences);
    load.wait([&] { return load.under_way == 0; });
    beside_plan("after the load");
  }

  for (int64_t i = 0; i < sleeps; ++i) {
    Load load;
    start(engine, load, sequences);
    load.wait([&] { return load.tokens > static_cast<size_t>(20 * sequences); });
    const auto begin = Clock::now();
    engine.release_memory();
    const double slept = seconds_since(begin);
    const int64_t kept = used();
    const auto woken = Clock::now();
    engine.resume_memory({.cache = false, .weights = true});
    const double weights = seconds_since(woken);
    engine.resume_memory({.cache = true, .weights = false});
    const double all = seconds_since(woken);
    size_t tokens = 0;
    {
      const std::lock_guard lock(load.mutex);
      tokens = load.tokens;
    }
    load.wait([&] { return load.tokens > tokens; });
    const double first_under_load = seconds_since(woken);
    load.wait([&] { return load.under_way == 0; });

    // Again without a load: the first token is then that of one request alone.
    engine.release_memory();
    const auto idle = Clock::now();
    engine.resume_memory();
    std::promise<void> first;
    engine::Request request;
    request.prompt_ids = bench_prompt(300, 1001);
    request.sampling.max_new_tokens = 1;
    request.on_output = [&first](const engine::Output&) { first.set_value(); };
    engine.submit(std::move(request)).value();
    first.get_future().wait();
    const double first_alone = seconds_since(idle);
    TF_CHECK(greedy_tokens(engine) == expected, "greedy tokens differ after a sleep");
    fmt::print(
        "sleep {}: {:.3f} s, {:.2f} GiB stay; wake: weights {:.3f} s, all {:.3f} s; first token after it began to wake "
        "{:.3f} s alone, {:.3f} s of {} under way\n",
        i + 1, slept, gib(kept), weights, all, first_alone, first_under_load, sequences);
    std::fflush(stdout);
  }
  beside_plan("at the end");
  return 0;
}
