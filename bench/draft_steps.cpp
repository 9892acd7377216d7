// libs: tf_engine
// What verifying drafts costs a step of Qwen3-8B's shape: one sequence that says the same again and again (greedy
// tokens of random weights do soon), with and without drafts.
//   draft_steps [device] [tokens] [layers]
#include <fmt/format.h>

#include "base/log.h"
#include "bench/qwen3_8b.h"

using namespace tritonforge;

int main(int argc, char** argv) {
  const auto text = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  log::start("draft_steps");
  for (const bool again : {false, true}) {
    for (const int64_t drafts : {0, 3, 7, 15}) {
      engine::EngineOptions options;
      options.model = "random";
      options.device = text(1, "cuda:0");
      options.max_running = 64;
      options.max_context = 8192;
      options.kv_cache_tokens = 65536;
      options.draft_tokens = drafts;
      at::manual_seed(5);
      engine::Engine engine(options, random_qwen3_8b(options.device, std::stoll(text(3, "36"))), nullptr);
      greedy_tokens(engine);
      const engine::EngineStats before = engine.stats();
      std::promise<double> done;
      engine::Request request;
      request.prompt_ids = bench_prompt(1024, 3);
      request.sampling.max_new_tokens = std::stoll(text(2, "600"));
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.on_output = [&done](const engine::Output& out) { done.set_value(out.latency_s - out.first_token_s); };
      engine.submit(std::move(request)).value();
      const double seconds = done.get_future().get();
      const engine::EngineStats after = engine.stats();
      const auto generated = static_cast<double>(after.generated_tokens - before.generated_tokens),
                 accepted = static_cast<double>(after.accepted_drafts - before.accepted_drafts),
                 steps = static_cast<double>(after.steps - before.steps);
      fmt::print("run {}, drafts {:2}: {:.3f} ms a decode step, {:.2f} tokens a step, {:.0f} tokens/s\n", again ? 2 : 1,
                 drafts, 1e3 * seconds / (steps - 1), generated / (generated - accepted), generated / seconds);
      std::fflush(stdout);
    }
  }
  return 0;
}
