#pragma once
// A recipe: one named run in YAML. `tritonforge run RECIPE.yaml --set rl.steps=30`.
#include <string>
#include <vector>

#include "base/config.h"
#include "base/filesystem.h"
#include "train/config.h"

namespace tritonforge::orchestrate {

struct ModelSection {
  std::string path;               // Hugging Face folder or GGUF file; relative to the repository root
  std::string dtype = "float32";  // of engine and trainer
  std::string device = "cpu";
  template <typename V>
  void describe(V& v) {
    v("path", path, "folder in Hugging Face form, or a GGUF file");
    v("dtype", dtype, "float32 | bfloat16");
    v("device", device, "cpu | cuda:0");
  }
};

struct DataSection {
  std::string pairs;     // JSON lines of `tritonforge data generate`
  std::string text;      // plain text instead ({"text"} lines): every token is trained on
  int64_t verify = 100;  // pairs drawn at random and evaluated again before they are trusted
  template <typename V>
  void describe(V& v) {
    v("pairs", pairs, "SFT pairs (JSON lines)");
    v("text", text, "plain text to train on instead of pairs (JSON lines)");
    v("verify", verify, "pairs to verify again at random");
  }
};

struct SftSection {
  int64_t steps = 100;
  int64_t tokens_per_step = 8192;  // sequences are added to a step up to this many tokens
  int64_t max_sequence = 1024;     // longer examples are left out, and counted
  train::TrainConfig train;
  template <typename V>
  void describe(V& v) {
    v("steps", steps, "optimizer steps");
    v("tokens_per_step", tokens_per_step, "tokens in a step");
    v("max_sequence", max_sequence, "longest example, in tokens");
    v("train", train, "trainer");
  }
};

struct SamplingSection {
  double temperature = 1.0, top_p = 1.0;
  int64_t max_new_tokens = 1024;  // of one turn
  template <typename V>
  void describe(V& v) {
    v("temperature", temperature, "sampling temperature");
    v("top_p", top_p, "nucleus mass");
    v("max_new_tokens", max_new_tokens, "longest response of one turn");
  }
};

struct RolloutSection {
  std::string prompt = "kernelbench";  // prompt style: kernelbench | minimal
  int64_t max_turns = 3;
  int64_t max_context = 8192;  // tokens of a whole trajectory
  double gamma = 0.4;
  std::string reward = "seed", credit = "trajectory", advantage = "grpo";
  double stop_reward = 1.3;   // a turn that reaches it ends the trajectory
  int64_t concurrency = 128;  // trajectories under way at once
  template <typename V>
  void describe(V& v) {
    v("prompt", prompt, "prompt style");
    v("max_turns", max_turns, "turns of refinement");
    v("max_context", max_context, "tokens of a whole trajectory");
    v("gamma", gamma, "discount between turns");
    v("reward", reward, "named reward or an expression");
    v("credit", credit, "trajectory | per_turn | best_turn");
    v("advantage", advantage, "grpo | grpo_nostd | rloo");
    v("stop_reward", stop_reward, "turn reward that ends a trajectory");
    v("concurrency", concurrency, "trajectories under way at once");
  }
};

struct RlSection {
  int64_t steps = 20, prompts_per_step = 8, samples_per_prompt = 8;
  int64_t max_staleness = 0;    // steps that generation may run ahead of training
  std::string problems;         // what RL trains on
  std::vector<int64_t> levels;  // keep these levels (empty: all)
  SamplingSection sampling;
  train::TrainConfig train;
  template <typename V>
  void describe(V& v) {
    v("steps", steps, "RL steps");
    v("prompts_per_step", prompts_per_step, "groups in a step");
    v("samples_per_prompt", samples_per_prompt, "trajectories in a group");
    v("max_staleness", max_staleness, "steps that generation may run ahead");
    v("problems", problems, "problems RL trains on");
    v("levels", levels, "keep these levels");
    v("sampling", sampling, "sampling");
    v("train", train, "trainer");
  }
};

struct BenchSection {
  std::string problems;  // held out from SFT and RL
  std::vector<int64_t> levels;
  std::vector<std::string> problem_ids;
  int64_t limit = 0;  // the first N after a seeded shuffle (0: all)
  int64_t samples = 4;
  std::vector<std::string> models = {"base", "sft", "rl"};  // which of them are measured
  std::vector<int64_t> turns = {1, 3};  // rows of the table; the largest is generated, the others are its prefixes
  SamplingSection sampling;
  template <typename V>
  void describe(V& v) {
    v("problems", problems, "held-out problems");
    v("levels", levels, "keep these levels");
    v("problem_ids", problem_ids, "keep these problem ids");
    v("limit", limit, "number of problems (0: all)");
    v("samples", samples, "samples a problem");
    v("models", models, "which are measured: base, sft, rl");
    v("turns", turns, "turn budgets to report");
    v("sampling", sampling, "sampling");
  }
};

struct EngineSection {
  std::vector<std::string> external;  // URLs of engines that run already (SGLang's API); then none is started
  int64_t count = 1, max_running = 64, kv_cache_tokens = 0, max_context = 0, threads = 0;
  template <typename V>
  void describe(V& v) {
    v("external", external, "URLs of running engines to use instead of starting some");
    v("count", count, "engine processes");
    v("max_running", max_running, "sequences in a batch");
    v("kv_cache_tokens", kv_cache_tokens, "tokens of KV cache (0: from memory)");
    v("max_context", max_context, "longest sequence (0: the model's)");
    v("threads", threads, "CPU threads (0: all)");
  }
};

struct EvaluatorSection {
  std::string mode = "interpret", device = "cpu", sandbox = "auto";
  int64_t workers = 2, num_correct_trials = 3, num_perf_trials = 100;
  bool fresh_seeds = true;   // inputs that no candidate can know; false: a run repeats bit by bit
  int64_t max_elements = 0;  // sizes are reduced to this; 0: interpret mode's default, live mode as they are
  double timeout_s = 60, candidate_timeout_s = 0;
  template <typename V>
  void describe(V& v) {
    v("mode", mode, "interpret | live");
    v("device", device, "cpu | cuda:0");
    v("sandbox", sandbox, "auto | strict");
    v("workers", workers, "evaluations at once");
    v("num_correct_trials", num_correct_trials, "correctness trials");
    v("num_perf_trials", num_perf_trials, "timed calls");
    v("fresh_seeds", fresh_seeds, "inputs that no candidate can know; false: verdicts follow from the run's seed");
    v("max_elements", max_elements, "elements that a problem's sizes are reduced to; 0: the mode's default");
    v("timeout_s", timeout_s, "deadline of one evaluation, waiting included");
    v("candidate_timeout_s", candidate_timeout_s,
      "of it for import, build and trials of the candidate; 0: the mode's default");
  }
};

struct RecipeConfig {
  std::string name;
  int64_t seed = 1;
  std::vector<std::string> stages = {"data", "sft", "rl", "bench"};
  bool share_device = false;      // trainer, engine and evaluator use one GPU: timing waits for idle
  int64_t dashboard_port = 8080;  // 0: no dashboard; a port in use gives the next free one
  ModelSection model;
  DataSection data;
  SftSection sft;
  RolloutSection rollout;
  RlSection rl;
  BenchSection bench;
  EngineSection engine;
  EvaluatorSection evaluator;
  template <typename V>
  void describe(V& v) {
    v("name", name, "name of the run's folder");
    v("seed", seed, "every random choice follows from it");
    v("stages", stages, "data, sft, rl, bench");
    v("share_device", share_device, "one GPU for trainer, engine and evaluator");
    v("dashboard_port", dashboard_port, "first port to try; 0: none");
    v("model", model, "base model");
    v("data", data, "SFT data");
    v("sft", sft, "supervised fine-tuning");
    v("rollout", rollout, "generation of trajectories");
    v("rl", rl, "reinforcement learning");
    v("bench", bench, "measurement on held-out problems");
    v("engine", engine, "inference engines");
    v("evaluator", evaluator, "evaluator");
  }
  void validate() const;  // throws kUsage naming the field
  bool has_stage(const std::string& stage) const;
  bool generates() const { return has_stage("rl") || has_stage("bench"); }  // needs router, engines and buffer
  bool evaluates() const { return generates() || has_stage("data"); }
};

// Reads a recipe, applies `--set` overrides, validates. A recipe may begin from another: `extends: quickstart.yaml`.
RecipeConfig load_recipe(const fs::path& path, const std::vector<std::string>& overrides);

// A path of a recipe: absolute as it is, otherwise below TRITONFORGE_ROOT (or the current folder).
fs::path resolve_path(const std::string& path);

}  // namespace tritonforge::orchestrate
