// KBenchEval: generate and evaluate. A run with the one stage `bench`, so that it is resumable and has a page.
#include <fmt/format.h>

#include <memory>

#include "base/url.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/generations.h"
#include "cli/kernelbench_arguments.h"
#include "cli/self_check.h"
#include "orchestrate/inputs.h"
#include "orchestrate/preflight.h"
#include "orchestrate/run.h"

namespace tritonforge::cli {
namespace {

struct BenchFlags {
  orchestrate::RecipeConfig recipe;
  orchestrate::RunOptions run;
  std::string model, tokenizer, chat_model, dtype;
  EvaluationMode mode = EvaluationMode::kPlan;
  int64_t turns = 1;
  bool self_check = false;
  fs::path generations;
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
    v("model", model,
      "folder, GGUF file, URL of an engine with SGLang's /generate (with --tokenizer), or base URL of a server with "
      "OpenAI's chat completions (with --chat-model)");
    v("tokenizer", tokenizer, "folder or GGUF file, where --model is an engine's URL");
    v("chat_model", chat_model,
      "the model's name on a server with OpenAI's chat completions, whose base URL (.../v1) is --model; the key is "
      "OPENAI_API_KEY of the environment");
    v("turns", turns, in(1, 16), "turns of refinement");
    v("prompt", recipe.rollout.prompt, "prompt style");
    v("mode", mode, "evaluator");
    v("self_check", self_check,
      "no model: says of each problem whether it is admitted, that is whether right and wrong can be told apart on it");
    v("generations", generations,
      "no model: judges the kernels in a folder of KernelBench's, level_1_problem_19_sample_0_kernel.py; results go to "
      "--output, or to results/ in it");
    v("device", recipe.model.device, "cpu or cuda:0");
    v("dtype", dtype, one_of({"", "float32", "bfloat16"}), "float32 on the CPU and bfloat16 on a GPU where empty");
    v.part(run);
  }
};

void require_problems(const BenchFlags& flags) {
  if (flags.recipe.bench.problems.empty())
    fail(ErrorKind::kUsage, "bench: --problems is missing: a folder, a .jsonl, .parquet or .py file");
}

// Mode interpret needs no GPU, mode live no other than one.
void choose_evaluator(const BenchFlags& flags, evaluate::EvaluatorOptions& evaluator) {
  const std::string& device = flags.recipe.model.device;
  evaluator.mode = flags.mode;
  if (flags.mode == EvaluationMode::kInterpret) evaluator.device = "cpu";
  else evaluator.device = flags.mode == EvaluationMode::kLive && device == "cpu" ? "cuda:0" : device;
}

orchestrate::RecipeConfig bench_recipe(const BenchFlags& flags) {
  if (flags.model.empty())
    fail(ErrorKind::kUsage, "bench: --model is missing: a folder, a GGUF file, or the URL of an engine");
  orchestrate::RecipeConfig config = flags.recipe;
  require_problems(flags);
  const bool remote = flags.model.starts_with("http://") || flags.model.starts_with("https://");
  if (remote && flags.tokenizer.empty() == flags.chat_model.empty()) {
    fail(ErrorKind::kUsage,
         "bench: --model {} needs one beside it: --tokenizer PATH (an engine with SGLang's /generate), or --chat-model "
         "NAME (OpenAI's chat completions)",
         flags.model);
  }
  if (!remote && !flags.chat_model.empty())
    fail(ErrorKind::kUsage, "bench: --chat-model is the name on a server: --model must be its URL, not {}",
         flags.model);
  if (!flags.chat_model.empty()) {
    config.model.chat_url = base_url(flags.model);
    config.model.chat_name = flags.chat_model;
    config.bench.models = {"base"};
  } else {
    config.model.path = remote ? flags.tokenizer : flags.model;
    if (remote) config.engine.external = {server_url(flags.model)};
  }
  const bool on_cpu = config.model.device == "cpu";
  config.model.dtype = !flags.dtype.empty() ? flags.dtype : on_cpu ? "float32" : "bfloat16";
  choose_evaluator(flags, config.evaluator);
  config.share_device = !on_cpu && config.evaluator.on_gpu();
  config.rollout.max_turns = flags.turns;
  config.bench.turns = {1};
  if (flags.turns > 1) config.bench.turns.push_back(flags.turns);
  check_options(config);
  return config;
}

void check_problems(const BenchFlags& flags) {
  require_problems(flags);
  evaluate::EvaluatorOptions options = flags.recipe.evaluator;
  choose_evaluator(flags, options);
  const auto problems = orchestrate::bench_problems(flags.recipe);
  orchestrate::warn_of_problems(flags.recipe);
  self_check(problems, options, flags.run.json);
}

void check_generations(const BenchFlags& flags) {
  require_problems(flags);
  if (!flags.model.empty()) fail(ErrorKind::kUsage, "bench: --generations judges what there is, without --model");
  orchestrate::RecipeConfig config = flags.recipe;
  choose_evaluator(flags, config.evaluator);
  judge_generations(config, flags.generations, flags.run);
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  auto* command = app.add_subcommand(
      "bench", "KBenchEval: generates kernels for problems and judges them; pass@1, compile rate, fast_p");
  add_flags(*command, *flags);
  add_flags(*command, flags->recipe.bench, {"models", "turns", "sampling"});
  add_flags(*command, flags->recipe.bench.sampling);
  // Of the buffer what matters for a server that is not ours.
  OptionList buffer;
  buffer.part(flags->recipe.rollout.buffer, orchestrate::with_concurrency());
  add_flags(*command, buffer, {"db", "router", "evaluator", "evaluations", "max_queued", "evaluate_margin_s"});
  command->add_option("key=value", flags->key_values,
                      "KernelBench's arguments: level=1 problem_id=19 num_samples=4 ...");
  command->footer(
      "example: tritonforge bench --problems problems --model models/tiny-base --level 1 --samples 4 --turns 3");
  command->callback([flags] {
    for (const auto& argument : flags->key_values) {
      const std::string note = apply_kernelbench_argument(argument, {flags->recipe, flags->run, flags->model});
      if (!note.empty()) fmt::print(stderr, "bench: {}\n", note);
    }
    if (flags->self_check) return check_problems(*flags);
    if (!flags->generations.empty()) return check_generations(*flags);
    orchestrate::run_recipe(bench_recipe(*flags), flags->run);
  });
}

}  // namespace tritonforge::cli
