// KBenchEval: generate and evaluate. A run with the one stage `bench`, so that it is resumable and has a page.
#include <cctype>
#include <memory>

#include "cli/commands.h"
#include "orchestrate/run.h"

namespace tritonforge::cli {
namespace {

struct Options {
  std::string problems, model, tokenizer, recipe, device = "cpu", dtype, mode = "interpret", prompt = "kernelbench",
                                                  output;
  std::vector<int64_t> levels;
  std::vector<std::string> problem_ids, key_values, overrides;
  int64_t samples = 1, turns = 1, max_new_tokens = 2048, limit = 0;
  double temperature = 1.0;
  bool resume = false, json = false;
};

// KernelBench's key=value arguments that have a meaning here.
void apply_key_value(Options& options, const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) fail(ErrorKind::kUsage, "bench: '{}' is not key=value", argument);
  const std::string key = argument.substr(0, equals), value = argument.substr(equals + 1);
  const auto number = [&] {
    int64_t result = 0;
    if (!YAML::convert<int64_t>::decode(YAML::Node(value), result))
      fail(ErrorKind::kUsage, "bench: {} must be a number, not '{}'", key, value);
    return result;
  };
  if (key == "level") options.levels = {number()};
  else if (key == "problem_id") options.problem_ids.push_back(value);
  else if (key == "dataset_src" || key == "dataset_name")
    options.problems = value == "local" || value == "huggingface" ? options.problems : value;
  else if (key == "num_samples" || key == "num_samples_per_problem") options.samples = number();
  else if (key == "max_tokens") options.max_new_tokens = number();
  else if (key == "temperature") options.temperature = YAML::Node(value).as<double>(1.0);
  else if (key == "model_name") options.model = value;
  else if (key == "run_name") options.output = "runs/" + value;
  else {
    fail(ErrorKind::kUsage, "bench: unknown key '{}'{}", key,
         nearest_hint(key, {"level", "problem_id", "dataset_src", "dataset_name", "num_samples",
                            "num_samples_per_problem", "max_tokens", "temperature", "model_name", "run_name"}));
  }
}

orchestrate::RecipeConfig bench_recipe(const Options& options) {
  if (options.model.empty())
    fail(ErrorKind::kUsage, "bench: --model is missing: a folder, a GGUF file, or the URL of an engine");
  if (options.problems.empty())
    fail(ErrorKind::kUsage, "bench: --problems is missing: a folder, a .jsonl or a .py file");
  orchestrate::RecipeConfig config;
  config.name = "bench";
  config.stages = {"bench"};
  const bool remote = options.model.rfind("http://", 0) == 0;
  if (remote && options.tokenizer.empty())
    fail(ErrorKind::kUsage, "bench: --model {} needs --tokenizer PATH beside it", options.model);
  config.model.path = remote ? options.tokenizer : options.model;
  if (remote) config.engine.external = {options.model};
  config.model.device = options.device;
  config.model.dtype = !options.dtype.empty() ? options.dtype : options.device == "cpu" ? "float32" : "bfloat16";
  config.evaluator.mode = options.mode;
  config.evaluator.device = options.mode == "live" ? (options.device == "cpu" ? "cuda:0" : options.device) : "cpu";
  config.share_device = options.mode == "live" && options.device != "cpu";
  config.rollout.prompt = options.prompt;
  config.rollout.max_turns = options.turns;
  if (options.mode == "interpret") config.rollout.stop_reward = 0.8;  // without times, correct is all there is
  config.bench.problems = options.problems;
  config.bench.levels = options.levels;
  config.bench.problem_ids = options.problem_ids;
  config.bench.limit = options.limit;
  config.bench.samples = options.samples;
  config.bench.turns = {1};
  if (options.turns > 1) config.bench.turns.push_back(options.turns);
  config.bench.sampling.temperature = options.temperature;
  config.bench.sampling.max_new_tokens = options.max_new_tokens;
  config.dashboard_port = 0;
  config.validate();
  return config;
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "bench", "KBenchEval: generates kernels for problems and judges them; pass@1, compile rate, fast_p");
  command->add_option("--problems", options->problems, "folder, .jsonl or .py file of problems");
  command->add_option("--model", options->model, "folder, GGUF file, or URL of a running engine");
  command->add_option("--tokenizer", options->tokenizer, "folder or GGUF file, where --model is a URL");
  command->add_option("--level", options->levels, "levels, as in 1,2")->delimiter(',');
  command->add_option("--problem-id", options->problem_ids, "problem ids")->delimiter(',');
  command->add_option("--samples", options->samples, "samples a problem");
  command->add_option("--turns", options->turns, "turns of refinement (1 to 3)");
  command->add_option("--limit", options->limit, "at most this many problems");
  command->add_option("--temperature", options->temperature, "sampling temperature");
  command->add_option("--max-new-tokens", options->max_new_tokens, "longest answer");
  command->add_option("--prompt", options->prompt, "prompt style: kernelbench | minimal");
  command->add_option("--mode", options->mode, "evaluator: interpret | live");
  command->add_option("--device", options->device, "cpu | cuda:0");
  command->add_option("--dtype", options->dtype, "float32 | bfloat16");
  command->add_option("--output", options->output, "the run's folder (default runs/bench-seed1)");
  command->add_flag("--resume", options->resume, "goes on with the run in the folder");
  command->add_flag("--json", options->json, "prints result.json instead of the table");
  command->add_option("key=value", options->key_values,
                      "KernelBench's arguments: level=1 problem_id=19 num_samples=4 ...");
  command->footer(
      "example: tritonforge bench --problems problems --model models/tiny-base --level 1 --samples 4 --turns 3");
  command->callback([options] {
    for (const auto& argument : options->key_values) apply_key_value(*options, argument);
    orchestrate::RunOptions run;
    run.output = options->output;
    run.resume = options->resume;
    run.json = options->json;
    orchestrate::run_recipe(bench_recipe(*options), run);
  });
}

}  // namespace tritonforge::cli
