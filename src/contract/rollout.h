#pragma once
// What a group of rollouts is asked for: POST /v2/rollouts (docs/protocols.md). Stored with the group, so that a
// restarted buffer goes on with exactly the same request.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"
#include "base/options.h"
#include "base/url.h"
#include "contract/priority.h"
#include "contract/verdict.h"
#include "tokenizer/chat_template.h"

namespace tritonforge {

// What a turn's tokens are paid for, and what they are compared with: the formulas are in rollout/credit.h.
enum class Credit { kTrajectory, kPerTurn, kBestTurn };
constexpr std::array<std::string_view, 3> names_of(Credit) { return {"trajectory", "per_turn", "best_turn"}; }

enum class Advantage { kGrpo, kGrpoNoStd, kRloo, kNone };
constexpr std::array<std::string_view, 4> names_of(Advantage) { return {"grpo", "grpo_nostd", "rloo", "none"}; }

// What becomes of a turn that is longer than it should be (DAPO, arXiv 2503.14476): nothing, no loss on one that was
// cut, or a reward that falls towards the longest that is allowed (rollout/reward.h, overlong_penalty).
enum class Overlong { kKeep, kMask, kPenalty };
constexpr std::array<std::string_view, 3> names_of(Overlong) { return {"keep", "mask", "penalty"}; }

// How the model is asked and what it is told about its last attempt: rollout/prompts.h.
enum class PromptStyle { kKernelBench, kMinimal };
constexpr std::array<std::string_view, 2> names_of(PromptStyle) { return {"kernelbench", "minimal"}; }

struct SamplingOptions {
  double temperature = 1.0, top_p = 1.0, min_p = 0.0;
  int64_t top_k = -1;
  int64_t max_new_tokens = 2048;

  template <typename V>
  void describe(V& v) {
    v("temperature", temperature, at_least(0), "sampling temperature; 0 = greedy");
    v("top_p", top_p, above(0), at_most(1), "mass of the most likely tokens that are kept");
    v("top_k", top_k, at_least(-1), "number of the most likely tokens that are kept; -1 = all");
    v("min_p", min_p, in(0, 1), "tokens below this share of the largest probability are cut");
    v("max_new_tokens", max_new_tokens, at_least(1), "longest response of one turn");
  }
  void validate() const {
    if (top_k == 0) fail(ErrorKind::kUsage, "'top_k' must be -1 (all) or at least 1, not 0");
  }
};

// The language of a candidate's kernels: docs/backends.md, src/evaluate/languages/.
enum class Backend { kTriton, kCuda, kHip, kOpencl };
constexpr std::array<std::string_view, 4> names_of(Backend) { return {"triton", "cuda", "hip", "opencl"}; }

// How candidates are judged. In a recipe these are keys of `evaluator`; the run fills in mode and measure_performance.
struct EvaluationOptions {
  std::optional<EvaluationMode> mode;  // nothing: the evaluator's own
  Backend backend = Backend::kTriton;
  std::vector<Target> targets{Target::kSm90};
  int64_t num_correct_trials = 5, num_perf_trials = 100;
  bool measure_performance = true;
  bool fresh_seeds = true;
  double timeout_s = 120;

  template <typename V>
  void describe(V& v) {
    v("mode", mode, by_run(), "the evaluator's own where empty");
    v("backend", backend, "language of the candidate's kernels (docs/backends.md)");
    v("targets", targets, commas(), "what every kernel must compile for, or it is not correct (live mode: the GPU)");
    v("num_correct_trials", num_correct_trials, in(1, 64), spelled("trials"), "correctness trials");
    v("num_perf_trials", num_perf_trials, at_least(0), spelled("perf-trials"),
      "timed calls, at most (modes plan and live)");
    v("measure_performance", measure_performance, by_run(), "times what is correct (modes plan and live)");
    v("fresh_seeds", fresh_seeds, "inputs that no candidate can know; false: verdicts follow from the run's seed");
    v("timeout_s", timeout_s, above(0), at_most(3600),
      "seconds for each part of an evaluation (reference, candidate, timing); waiting for a worker costs none");
  }
  void validate() const {
    if (targets.empty()) fail(ErrorKind::kUsage, "'targets' must name at least one of sm_90, gfx942");
    if (std::set(targets.begin(), targets.end()).size() != targets.size())
      fail(ErrorKind::kUsage, "'targets' names one twice");
  }
};

Json to_json(const EvaluationOptions& options);  // the fields of POST /v2/evaluations that say how

// What the clock cannot tell apart, as a difference of logarithms (rollout/reward.h).
inline constexpr double kSpeedResolution = 0.03;

struct RolloutOptions {
  int64_t max_turns = 3;
  double gamma = 0.4;
  std::string reward = "seed";  // rollout/reward.h alone can tell whether it is one
  double speed_resolution = kSpeedResolution;
  Credit credit = Credit::kTrajectory;
  Advantage advantage = Advantage::kGrpo;
  Overlong overlong = Overlong::kKeep;
  int64_t overlong_cache = 256;
  PromptStyle prompt = PromptStyle::kKernelBench;
  // A trajectory ends at a correct turn that is at least so fast, whatever the reward's scale, and at a correct one
  // where nothing is timed: without a clock nothing better can follow.
  double stop_speedup = 2.0;
  int64_t max_context = 8192;
  bool enable_thinking = true;
  SamplingOptions sampling;
  EvaluationOptions evaluate;
  std::string router, evaluator;
  std::string chat_model;   // asked as chat completions of `router`, under this name; empty: as tokens
  bool keep_turns = false;  // each turn is durable as it ends, not only the trajectory
  Priority priority = Priority::kTraining;

  template <typename V>
  void describe(V& v) {
    v("prompt", prompt, "what the model is asked and told about its last attempt (rollout/prompts.h)");
    v("max_turns", max_turns, in(1, 16), "turns of refinement");
    v("max_context", max_context, at_least(2), "tokens of one turn's prompt and response together");
    v("gamma", gamma, in(0, 1), "discount between turns");
    v("reward", reward, "seed, tritonforge_code, kevin, drkernel_graded, staged, or an expression (rollout/reward.h)");
    v("speed_resolution", speed_resolution, in(0, 1),
      "a speedup whose logarithm is at most so far from 0 pays as 1: the clock cannot tell it from that; 0 = none");
    v("credit", credit, "what a turn's tokens are paid for (rollout/credit.h)");
    v("advantage", advantage, "what a return is compared with (rollout/credit.h)");
    v("overlong", overlong,
      "keep, mask: no loss on turns that were cut, or penalty: the reward falls with their length");
    v("overlong_cache", overlong_cache, at_least(1), "the last tokens of a turn, over which the penalty grows to -1");
    v("stop_speedup", stop_speedup, at_least(0),
      "a trajectory ends at a turn that is correct and at least so many times as fast as PyTorch; 0 = any correct "
      "turn, "
      "as where nothing is timed");
    v("enable_thinking", enable_thinking, "Qwen3: lets the model think");
    v("sampling", sampling, by_run(), "sampling");
    v("evaluate", evaluate, by_run(), "evaluation");
    v("router", router, by_run(), in_form(base_url), "URL of the router; empty = the buffer's own");
    v("evaluator", evaluator, by_run(), in_form(base_url), "URL of the evaluator; empty = the buffer's own");
    v("chat_model", chat_model, by_run(),
      "the model's name on a server with OpenAI's chat completions, whose base URL (.../v1) is `router`; empty: "
      "tokens");
    v("keep_turns", keep_turns, by_run(),
      "each answer and each verdict is durable before what follows it: after a restart neither is asked for again");
    v("priority", priority, by_run(), "what the router lets go first: training, or evaluation once no training waits");
  }
};
// Absent fields keep their defaults. Throws kUsage: an unknown key or name with the nearest one, a value out of range.
RolloutOptions rollout_options_from_json(const Json& json, const std::string& where);
Json to_json(const RolloutOptions& options);

struct GroupSpec {
  std::string id, problem_id, problem_source;
  int64_t n_samples = 8;
  uint64_t seed = 0;
  RolloutOptions options;
  std::vector<tokenizer::Message> messages;  // the first messages verbatim; empty = from the prompt style
  bool legacy = false;                       // asked for through the legacy /start_rollout
  Json extra;                                // the caller's own; handed back by the legacy endpoints
};
// One entry of "groups"; `options` are shared by all of a request.
GroupSpec group_spec_from_json(const Json& json, const RolloutOptions& options, const std::string& where);

}  // namespace tritonforge
