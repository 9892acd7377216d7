// libs: tf_engine
// What verifying drafts costs a step of Qwen3-8B's shape: one sequence whose every draft is right, since it says the
// same hundred tokens again and again; one with nothing to draft from; and as many of those as there are rows.
//   draft_steps [device] [tokens] [layers]
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "bench/qwen3_8b.h"

using namespace tritonforge;

namespace {

constexpr int64_t kPeriod = 100, kRows = 64;

// Of the first hundred tokens each is followed by the next: the layers say little, and the head knows the embeddings.
void let_count(const model::Model& model) {
  const at::NoGradGuard no_grad;
  for (const model::LayerWeights& layer : model.layers()) {
    at::Tensor(layer.o_proj).mul_(1e-3);
    at::Tensor(layer.down_proj).mul_(1e-3);
  }
  at::Tensor(model.lm_head()).narrow(0, 0, kPeriod).copy_(model.embed_tokens().narrow(0, 0, kPeriod).roll(1, 0));
}

}  // namespace

int main(int argc, char** argv) {
  const auto text = [&](int i, const char* fallback) { return std::string(argc > i ? argv[i] : fallback); };
  log::start("draft_steps");
  kernels::open_device(text(1, "cuda:0"));  // before the seed: ATen looks for its CUDA half once
  struct Case {
    const char* name;
    bool repeats;
    int64_t sequences;
  };
  for (const Case& c : {Case{"1 repeats", true, 1}, {"1 does not", false, 1}, {"64 do not", false, kRows}}) {
    for (const int64_t drafts : {0, 3, 7, 15}) {
      engine::EngineOptions options;
      options.model = "random";
      options.device = text(1, "cuda:0");
      options.max_running = kRows;
      options.max_context = 8192;
      options.kv_cache_tokens = 2048 * kRows;
      options.draft_tokens = drafts;
      at::manual_seed(5);
      auto model = random_qwen3_8b(options.device, std::stoll(text(3, "36")));
      if (c.repeats) let_count(*model);
      engine::Engine engine(options, std::move(model), nullptr);
      greedy_tokens(engine);

      // From the first token of the last sequence on all of them decode.
      const engine::EngineStats before = engine.stats();
      std::vector<std::promise<double>> done(static_cast<size_t>(c.sequences));
      for (int64_t i = 0; i < c.sequences; ++i) {
        engine::Request request;
        request.prompt_ids = bench_prompt(1024, 3 + i);
        if (c.repeats) std::ranges::generate(request.prompt_ids, [next = 0]() mutable { return next++ % kPeriod; });
        request.sampling.max_new_tokens = std::stoll(text(2, "600"));
        request.sampling.temperature = 0;
        request.sampling.ignore_eos = true;
        auto* promise = &done[static_cast<size_t>(i)];
        request.on_output = [promise](const engine::Output& out) {
          promise->set_value(out.latency_s - out.first_token_s);
        };
        engine.submit(std::move(request)).value();
      }
      double seconds = 0;
      for (auto& promise : done) seconds = promise.get_future().get();
      const engine::EngineStats after = engine.stats();
      const auto generated = static_cast<double>(after.generated_tokens - before.generated_tokens),
                 accepted = static_cast<double>(after.accepted_drafts - before.accepted_drafts);
      const double each = generated / (generated - accepted),  // tokens of a sequence in a step
          steps = (static_cast<double>(std::stoll(text(2, "600"))) - 1) / each;
      fmt::print("{:10} drafts {:2}: {:.3f} ms a decode step, {:.2f} tokens a step of a sequence, {:.0f} tokens/s\n",
                 c.name, drafts, 1e3 * seconds / steps, each, generated / seconds);
      std::fflush(stdout);
    }
  }
  return 0;
}
