#pragma once
// What a group of rollouts is asked for: POST /v2/rollouts (docs/protocols.md). Stored with the group, so that a
// restarted buffer goes on with exactly the same request.
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"
#include "tokenizer/chat_template.h"

namespace tritonforge {

// What a turn's tokens are paid for, and what they are compared with: the formulas are in rollout/credit.h.
enum class Credit { kTrajectory, kPerTurn, kBestTurn };
constexpr std::array<std::string_view, 3> names_of(Credit) { return {"trajectory", "per_turn", "best_turn"}; }

enum class Advantage { kGrpo, kGrpoNoStd, kRloo };
constexpr std::array<std::string_view, 3> names_of(Advantage) { return {"grpo", "grpo_nostd", "rloo"}; }

// How the model is asked and what it is told about its last attempt: rollout/prompts.h.
enum class PromptStyle { kKernelBench, kMinimal };
constexpr std::array<std::string_view, 2> names_of(PromptStyle) { return {"kernelbench", "minimal"}; }

struct SamplingOptions {
  double temperature = 1.0, top_p = 1.0, min_p = 0.0;
  int64_t top_k = -1;
  int64_t max_new_tokens = 2048;
};

struct EvaluationOptions {
  std::string mode;  // "" = the evaluator's own
  std::string backend = "triton";
  int64_t num_correct_trials = 5, num_perf_trials = 100;
  bool measure_performance = true;
  bool fresh_seeds = true;  // false: verdicts are a function of the group's seed, for runs that repeat bit by bit
  double timeout_s = 120;
};

struct RolloutOptions {
  int64_t max_turns = 3;
  double gamma = 0.4;
  std::string reward = "seed";  // a name or an expression: rollout/reward.h, which alone can tell whether it is one
  Credit credit = Credit::kTrajectory;
  Advantage advantage = Advantage::kGrpo;
  PromptStyle prompt = PromptStyle::kKernelBench;
  // A trajectory ends at a turn with at least this reward, and at a correct one that was not timed: without a clock
  // nothing better can follow.
  double stop_reward = 1.3;
  int64_t max_context = 8192;   // tokens of one turn's prompt and response together
  bool enable_thinking = true;  // Qwen3's template
  SamplingOptions sampling;
  EvaluationOptions evaluate;
  std::string router, evaluator;  // URLs; "" = the server's own
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
