#pragma once
// The unit of everything after rollout (design section 5). Token ids are never re-tokenised.
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "contract/verdict.h"

namespace tritonforge {

enum class TurnStatus { kCompleted, kTruncated, kAborted, kFailed };
std::string_view name_of(TurnStatus status);

struct Turn {
  std::vector<int64_t> prompt_tokens;    // exactly what the engine was given
  std::vector<int64_t> response_tokens;  // exactly what it sampled (the stop token included)
  std::vector<float> log_probs;          // of each response token, at temperature T, before any top-p / top-k cut
  std::vector<int64_t> weight_versions;  // of each response token
  std::string text, code;                // response text; extracted code ("" where none was found)
  Verdict verdict;
  double reward = 0;
  TurnStatus status = TurnStatus::kFailed;  // failed: no verdict or no completion; it carries no loss
  double generate_s = 0, evaluate_s = 0;
  // For people: when its requests began (Unix seconds; 0: there was none, or nobody wrote it down), and what the model
  // was told of this turn before the next ("": there is no next).
  double generate_begun = 0, evaluate_begun = 0;
  std::string feedback;
};

struct Trajectory {
  std::string id, problem_id, group_id;
  std::vector<Turn> turns;
  double temperature = 1.0;
  double reward = 0;                 // aggregated return (credit rule)
  std::vector<double> turn_returns;  // one a turn: what credit gives that turn's tokens
  std::vector<double> advantages;    // one a turn, set by the buffer once the group is complete
  std::vector<bool> carries_loss;    // the same; whether the turn is trained on. Empty: every turn that was sampled
};

// Ended by a failure of ours: no completion, or no verdict. It is nobody's fault but ours, so it counts in no mean, no
// pass rate and no comparison.
bool ended_by_failure(const Trajectory& trajectory);

Json to_json(const Turn& turn);
Turn turn_from_json(const Json& json, const std::string& where);  // throws kUsage naming the field
Json to_json(const Trajectory& trajectory);
Trajectory trajectory_from_json(const Json& json);  // throws kUsage naming the field

// A trajectory as people and figures need it: without the arrays of a turn's tokens, which stay empty where a
// transcript is read. Only the trainer is sent tokens (contract/sequence_batch.h).
Json transcript_json(const Trajectory& trajectory);
Trajectory transcript_from_json(const Json& json);  // throws kUsage naming the field

// One training sequence: tokens with per-token targets' attributes. All vectors have tokens.size() entries; entry i
// speaks of token i (as a target, predicted from tokens < i); loss_mask[0] is 0.
struct TrainSequence {
  std::vector<int64_t> tokens;
  std::vector<uint8_t> loss_mask;
  std::vector<float> old_log_probs;      // sampler's, 0 where loss_mask is 0
  std::vector<float> advantages;         // 0 where loss_mask is 0
  std::vector<int64_t> weight_versions;  // -1 where loss_mask is 0
  std::string trajectory_id;
  double temperature = 1.0;

  bool operator==(const TrainSequence&) const = default;
};

// Follows from the tokens alone: turns whose prompt begins with the whole turn before are one sequence; where history
// was cut, the turn is a sequence of its own. Failed and aborted-without-tokens turns carry no loss, nor do those that
// carries_loss leaves out.
std::vector<TrainSequence> to_train_sequences(const Trajectory& trajectory);

}  // namespace tritonforge
