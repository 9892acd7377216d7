#pragma once
// A recipe: one named run in YAML. `tritonforge run RECIPE.yaml --set rl.steps=30`.
#include <string>
#include <vector>

#include "base/config.h"
#include "base/filesystem.h"
#include "base/url.h"
#include "contract/lease.h"
#include "contract/rollout.h"
#include "engine/options.h"
#include "evaluate/options.h"
#include "orchestrate/algorithms.h"
#include "orchestrate/group_schedule.h"
#include "orchestrate/placement.h"
#include "orchestrate/supervisor.h"
#include "orchestrate/trackers.h"
#include "rollout/options.h"
#include "router/options.h"
#include "train/config.h"

namespace tritonforge::orchestrate {

struct ModelSection {
  std::string path, chat_url, chat_name, shape;
  std::string dtype = "float32", device = "cpu";
  bool is_chat() const { return !chat_url.empty(); }
  template <typename V>
  void describe(V& v) {
    v("path", path,
      "folder in Hugging Face form, or a GGUF file, relative to the repository root; or a hub's name that was pulled "
      "(tritonforge model pull)");
    v("chat_url", chat_url, in_form(base_url),
      "in its place, for a bench: base URL of a server with OpenAI's chat completions (http://host:8000/v1); the key "
      "for it is OPENAI_API_KEY of the environment");
    v("chat_name", chat_name, "the model's name there");
    v("shape", shape, "a config.json of its shape: `tritonforge plan` reads it where the model itself is not here yet");
    v("dtype", dtype, one_of({"float32", "bfloat16"}), "of engine and trainer");
    v("device", device, "cpu or cuda:0; decided by a placement");
  }
};

struct DataSection {
  std::string pairs, text, conversations;
  int64_t verify = 100;
  bool from_pairs() const { return text.empty() && conversations.empty(); }
  template <typename V>
  void describe(V& v) {
    v("pairs", pairs, "SFT pairs: JSON lines of `tritonforge data generate`");
    v("text", text, "plain text to train on instead of pairs ({\"text\"} lines): every token is trained on");
    v("conversations", conversations,
      "conversations to train on instead of pairs: the folder that `tritonforge data build` wrote, or chat .jsonl or "
      ".parquet with `messages`; only what they mark as learned is trained on");
    v("verify", verify, at_least(0), "pairs drawn at random and evaluated again before they are trusted");
  }
};

struct SftSection {
  int64_t steps = 100, tokens_per_step = 8192, sequences_per_step = 0, max_sequence = 1024;
  train::TrainConfig train;
  template <typename V>
  void describe(V& v) {
    v("steps", steps, at_least(1), "optimizer steps");
    v("tokens_per_step", tokens_per_step, at_least(1), "sequences are added to a step up to this many tokens");
    v("sequences_per_step", sequences_per_step, at_least(0),
      "and up to this many of them, whichever comes first; 0 = any number");
    v("max_sequence", max_sequence, at_least(1), "longest example, in tokens; longer ones are left out, and counted");
    v("train", train, in_recipe(), "the trainer's job of this stage");
  }
};

// Of a run's buffer: whether it makes trajectories itself is what `generators` says, not a concurrency of 0.
OptionRule with_concurrency();

// What is asked of the buffer in every request, and what the buffer is started with.
struct RolloutSection : RolloutOptions {
  rollout::ServiceOptions buffer{.concurrency = 128};
  int64_t generators = 0;
  template <typename V>
  void describe(V& v) {
    v.part(static_cast<RolloutOptions&>(*this), in_recipe());
    v("generators", generators, in(0, 1024),
      "processes beside the buffer's that generate in its place, each with its part of concurrency and evaluations; "
      "0 = it does so itself");
    v.part(buffer, in_recipe(), with_concurrency());
  }
};

// Held-out problems during RL, and the best model (orchestrate/validation.h).
struct ValidationSection {
  int64_t every = 0, limit = 32, samples = 2;
  std::string problems;
  template <typename V>
  void describe(V& v) {
    v("every", every, at_least(0), "RL steps between measurements; the last step is one; 0 = off");
    v("problems", problems, "held-out problems that the best model is chosen by; not those of the bench");
    v("limit", limit, at_least(0), "so many of the problems, the same for every seed; 0 = all");
    v("samples", samples, at_least(1), "samples a problem");
  }
};

struct ReplaySection {
  int64_t groups = 0, steps = 4;
  LeaseOrder order = LeaseOrder::kVariance;
  template <typename V>
  void describe(V& v) {
    v("groups", groups, at_least(0), "groups of earlier steps that each step trains on again; 0 = off");
    v("steps", steps, at_least(1), "of the last so many steps");
    v("order", order, "which of them first, those that were replayed least before all (contract/lease.h)");
  }
};

struct RlSection {
  int64_t steps = 20, prompts_per_step = 8, samples_per_prompt = 8, max_staleness = 0, update_interval = 1;
  int64_t refills = 0, transcripts = 8;
  double over_sampling = 0;
  std::string algorithm = "custom";
  std::string problems;
  std::vector<int64_t> levels;
  SamplingOptions sampling{.max_new_tokens = 1024};
  ReplaySection replay;
  ValidationSection validation;
  train::TrainConfig train;
  template <typename V>
  void describe(V& v) {
    v("steps", steps, at_least(1), "RL steps");
    v("prompts_per_step", prompts_per_step, at_least(1), "groups in a step");
    v("samples_per_prompt", samples_per_prompt, at_least(2), "trajectories in a group, compared with one another");
    v("max_staleness", max_staleness, at_least(0),
      "steps that generation may run ahead of training, and weight versions that a token may be old");
    v("update_interval", update_interval, at_least(1),
      "steps from one set of weights on the engines to the next: a token may be one less versions older; "
      "train.checkpoint_interval and validation.every are multiples of it, and a stop goes back to the last update");
    v("over_sampling", over_sampling, at_least(0),
      "groups under way as a multiple of prompts_per_step, above 1: a step takes those that are complete first, and "
      "one that is late waits for a later step; 0 = off");
    v("algorithm", algorithm, one_of(algorithm_names()),
      "a paper's algorithm by name: its options, where the recipe does not set them (orchestrate/algorithms.h)");
    v("refills", refills, in(0, 64),
      "dynamic sampling: rounds in which groups that teach nothing are replaced by groups of other problems; 0 = off");
    v("transcripts", transcripts, at_least(0),
      "trajectories of each group that trajectories.jsonl keeps for the page; buffer.sqlite has all of them");
    v("problems", problems, "problems that RL trains on");
    v("levels", levels, at_least(0), "keep these levels; empty = all");
    v("sampling", sampling, "how tokens are drawn");
    v("replay", replay, "trajectories that are learned from more than once, weighed by train.loss.tis");
    v("validation", validation, "measurement during RL; models/rl is then the best model, not the last");
    v("train", train, in_recipe(), "the trainer's job of this stage");
  }
  // The last step up to `step` whose weights the engines get.
  int64_t updated(int64_t step) const { return step == steps ? step : step - step % update_interval; }
  GroupSchedule schedule() const { return {steps, prompts_per_step, max_staleness, over_sampling}; }
};

struct BenchSection {
  std::string problems;
  std::vector<int64_t> levels;
  std::vector<std::string> problem_ids;
  int64_t limit = 0, samples = 4;
  std::vector<std::string> models = {"base", "sft", "rl"};
  std::vector<int64_t> pass_at;
  std::vector<int64_t> turns = {1, 3};  // rows of the table; the largest is generated, the others are its prefixes
  SamplingOptions sampling{.max_new_tokens = 1024};
  template <typename V>
  void describe(V& v) {
    v("problems", problems, "held-out problems: folder, .jsonl, .parquet or .py file");
    v("levels", levels, at_least(0), spelled("level"), commas(), "keep these levels; empty = all");
    v("problem_ids", problem_ids, spelled("problem-id"), commas(), "keep these problem ids; empty = all");
    v("limit", limit, at_least(0), "so many of the problems, the same for every seed; 0 = all");
    v("samples", samples, at_least(1), "samples a problem");
    v("pass_at", pass_at, at_least(1), commas(), "the k of pass@k; empty = 1, 2, 5, 10, ... and the number of samples");
    v("models", models, one_of({"base", "sft", "rl"}), "which of them are measured");
    v("turns", turns, in(1, 16), "turn budgets to report");
    v("sampling", sampling, "how tokens are drawn");
  }
};

struct EngineSection : engine::EngineOptions {
  std::vector<std::string> external;
  int64_t count = 1;
  EngineSection() { max_running = 64; }
  template <typename V>
  void describe(V& v) {
    v("external", external, in_form(server_url),
      "URLs of engines that run already (SGLang's API); then none is started");
    v("count", count, at_least(1), "engine processes; decided by a placement");
    v.part(static_cast<engine::EngineOptions&>(*this), in_recipe());
  }
};

// What the evaluator is started with, and what it is asked in every request.
struct EvaluatorSection : evaluate::EvaluatorOptions {
  EvaluationOptions request{.num_correct_trials = 3, .timeout_s = 60};
  template <typename V>
  void describe(V& v) {
    v.part(static_cast<evaluate::EvaluatorOptions&>(*this), in_recipe());
    v.part(request, in_recipe());
  }
};

struct RecipeConfig {
  std::string name;
  int64_t seed = 1;
  static inline const std::vector<std::string> kStages = {"data", "sft", "rl", "bench"};  // in the order of a run
  std::vector<std::string> stages = kStages;
  bool share_device = false;
  int64_t dashboard_port = 8080;
  PlacementSection placement;
  ModelSection model;
  DataSection data;
  SftSection sft;
  RolloutSection rollout;
  RlSection rl;
  BenchSection bench;
  EngineSection engine;
  router::RouterOptions router;
  EvaluatorSection evaluator;
  SupervisorOptions supervisor;
  TrackingSection tracking;
  template <typename V>
  void describe(V& v) {
    v("name", name, required(), "name of the run's folder");
    v("seed", seed, "every random choice follows from it");
    v("stages", stages, one_of(kStages), "what the run goes through, in this order");
    v("share_device", share_device,
      "trainer, engine and evaluator use one GPU: timing waits until it is idle; decided by a placement");
    v("dashboard_port", dashboard_port, in(0, 65535), "first port to try; 0 = no dashboard");
    v("placement", placement, "what goes where; without it everything is on this machine (docs/clusters.md)");
    v("model", model, "base model");
    v("data", data, "SFT data");
    v("sft", sft, "supervised fine-tuning");
    v("rollout", rollout, "generation of trajectories, by the buffer's process");
    v("rl", rl, "reinforcement learning");
    v("bench", bench, "measurement on held-out problems");
    v("engine", engine, "inference engines");
    v("router", router, in_recipe(), "which engine takes a request, and which request waits");
    v("evaluator", evaluator, "how candidates are judged");
    v("supervisor", supervisor, "when a role is restarted");
    v("tracking", tracking, "who else gets the run's figures");
  }
  void validate() const;  // throws kUsage naming the field
  bool has_stage(const std::string& stage) const;
  bool generates() const { return has_stage("rl") || has_stage("bench"); }  // needs router, engines and buffer
  bool evaluates() const { return generates() || has_stage("data"); }
  bool trains() const { return has_stage("sft") || has_stage("rl"); }
  bool serves() const { return generates() && engine.external.empty() && !model.is_chat(); }  // engines of its own
  Layout layout() const;                                                                      // throws as lay_out()
  // What the buffer is asked for: the sections rollout and evaluator, and one stage's sampling and turns.
  RolloutOptions rollout_request(const SamplingOptions& sampling, int64_t max_turns) const;
  EvaluationOptions pair_request() const;  // how the data stage has its pairs judged: nothing is timed
};

// What of a recipe decides the result and differs between the run in a folder and one that is to go on with it:
// "rl.train.lr: 2e-05, now 1e-04". Empty where they may differ as they do: in addresses, limits of parallel work,
// checkpoints, and whatever else changes how fast a run is or what it survives; in the options of stages that were not
// `begun`; and in sft.steps and rl.steps, unless a cosine falls over them, RL began from the model after those of SFT,
// or RL's last one was no multiple of rl.update_interval.
std::vector<std::string> deciding_changes(const RecipeConfig& before, const RecipeConfig& now,
                                          const std::vector<std::string>& begun);

// Reads a recipe (a file, or the name of one that comes with the program: quickstart), applies `--set` overrides,
// validates. A recipe may begin from another: `extends: quickstart.yaml`.
RecipeConfig load_recipe(const fs::path& path, const std::vector<std::string>& overrides);

// Every option of a recipe as a page in Markdown (docs/recipes.md): `tritonforge run --options`.
std::string recipe_reference();

// A path of a recipe: absolute or empty as it is, otherwise below the current folder or TRITONFORGE_ROOT; where neither
// has it, what the hub's cache has under that name (base/hub.h).
fs::path resolve_path(const std::string& path);

}  // namespace tritonforge::orchestrate
