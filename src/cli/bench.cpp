// KBenchEval: generate and evaluate. A run with the one stage `bench`, so that it is resumable and has a page.
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/kernelbench_arguments.h"
#include "orchestrate/run.h"

namespace tritonforge::cli {
namespace {

struct BenchFlags {
  orchestrate::RecipeConfig recipe;
  orchestrate::RunOptions run;
  std::string model, tokenizer, dtype;
  EvaluationMode mode = EvaluationMode::kInterpret;
  int64_t turns = 1;
  std::vector<std::string> key_values;

  BenchFlags() {
    recipe.name = "bench";
    recipe.stages = {"bench"};
    recipe.dashboard_port = 0;
    recipe.bench.samples = 1;
    recipe.bench.sampling.max_new_tokens = 2048;
  }
  template <typename V>
  void describe(V& v) {
    v("model", model, "folder, GGUF file, or URL of a running engine");
    v("tokenizer", tokenizer, "folder or GGUF file, where --model is a URL");
    v("turns", turns, in(1, 16), "turns of refinement");
    v("prompt", recipe.rollout.prompt, "prompt style");
    v("mode", mode, "evaluator");
    v("device", recipe.model.device, "cpu or cuda:0");
    v("dtype", dtype, one_of({"", "float32", "bfloat16"}), "float32 on the CPU and bfloat16 on a GPU where empty");
    v.part(run);
  }
};

orchestrate::RecipeConfig bench_recipe(const BenchFlags& flags) {
  if (flags.model.empty())
    fail(ErrorKind::kUsage, "bench: --model is missing: a folder, a GGUF file, or the URL of an engine");
  orchestrate::RecipeConfig config = flags.recipe;
  if (config.bench.problems.empty())
    fail(ErrorKind::kUsage, "bench: --problems is missing: a folder, a .jsonl or a .py file");
  const bool remote = flags.model.rfind("http://", 0) == 0;
  if (remote && flags.tokenizer.empty())
    fail(ErrorKind::kUsage, "bench: --model {} needs --tokenizer PATH beside it", flags.model);
  config.model.path = remote ? flags.tokenizer : flags.model;
  if (remote) config.engine.external = {flags.model};
  const bool on_cpu = config.model.device == "cpu", live = flags.mode == EvaluationMode::kLive;
  config.model.dtype = !flags.dtype.empty() ? flags.dtype : on_cpu ? "float32" : "bfloat16";
  config.evaluator.mode = flags.mode;
  config.evaluator.device = !live ? "cpu" : on_cpu ? "cuda:0" : config.model.device;
  config.share_device = live && !on_cpu;
  config.rollout.max_turns = flags.turns;
  config.bench.turns = {1};
  if (flags.turns > 1) config.bench.turns.push_back(flags.turns);
  check_options(config);
  return config;
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  auto* command = app.add_subcommand(
      "bench", "KBenchEval: generates kernels for problems and judges them; pass@1, compile rate, fast_p");
  add_flags(*command, *flags);
  add_flags(*command, flags->recipe.bench, {"models", "turns", "sampling"});
  add_flags(*command, flags->recipe.bench.sampling);
  command->add_option("key=value", flags->key_values,
                      "KernelBench's arguments: level=1 problem_id=19 num_samples=4 ...");
  command->footer(
      "example: tritonforge bench --problems problems --model models/tiny-base --level 1 --samples 4 --turns 3");
  command->callback([flags] {
    for (const auto& argument : flags->key_values) {
      const std::string note = apply_kernelbench_argument(argument, {flags->recipe, flags->run, flags->model});
      if (!note.empty()) fmt::print(stderr, "bench: {}\n", note);
    }
    orchestrate::run_recipe(bench_recipe(*flags), flags->run);
  });
}

}  // namespace tritonforge::cli
