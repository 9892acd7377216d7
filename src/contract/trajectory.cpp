#include "contract/trajectory.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tritonforge {
namespace {

constexpr std::array<std::pair<TurnStatus, std::string_view>, 4> kStatuses{{
    {TurnStatus::kCompleted, "completed"},
    {TurnStatus::kTruncated, "truncated"},
    {TurnStatus::kAborted, "aborted"},
    {TurnStatus::kFailed, "failed"},
}};

TurnStatus parse_status(const std::string& name, std::string_view where) {
  std::vector<std::string> known;
  for (const auto& [status, text] : kStatuses) {
    if (text == name) return status;
    known.emplace_back(text);
  }
  fail(ErrorKind::kUsage, "{}: unknown status '{}'{}", where, name, nearest_hint(name, known));
}

void check_same_size(size_t got, size_t expected, const char* field, const char* other, std::string_view where) {
  if (got != expected) {
    fail(ErrorKind::kUsage, "{}: '{}' has {} entries, '{}' has {}", where, field, got, other, expected);
  }
}

std::vector<int64_t> token_ids(const Json& json, const char* key, std::string_view where) {
  auto ids = require<std::vector<int64_t>>(json, key, where);
  for (const int64_t id : ids) {
    if (id < 0) fail(ErrorKind::kUsage, "{}: '{}' holds the negative token id {}", where, key, id);
  }
  return ids;
}

Turn transcript_turn(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "{}: not a JSON object", where);
  Turn turn;
  turn.text = require<std::string>(json, "text", where);
  turn.code = require<std::string>(json, "code", where);
  turn.verdict = verdict_from_json(require<Json>(json, "verdict", where));
  turn.reward = require<double>(json, "reward", where);
  turn.status = parse_status(require<std::string>(json, "status", where), where);
  turn.generate_s = optional_field<double>(json, "generate_s", 0, where);
  turn.evaluate_s = optional_field<double>(json, "evaluate_s", 0, where);
  turn.generate_begun = optional_field<double>(json, "generate_begun", 0, where);
  turn.evaluate_begun = optional_field<double>(json, "evaluate_begun", 0, where);
  turn.feedback = optional_field<std::string>(json, "feedback", "", where);
  return turn;
}

Json transcript_json(const Turn& turn) {
  TF_CHECK(std::isfinite(turn.reward), "turn reward is {}", turn.reward);
  Json json = {{"text", turn.text},
               {"code", turn.code},
               {"verdict", to_json(turn.verdict)},
               {"reward", turn.reward},
               {"status", std::string(name_of(turn.status))},
               {"generate_s", turn.generate_s},
               {"evaluate_s", turn.evaluate_s}};
  if (turn.generate_begun > 0) json["generate_begun"] = turn.generate_begun;
  if (turn.evaluate_begun > 0) json["evaluate_begun"] = turn.evaluate_begun;
  if (!turn.feedback.empty()) json["feedback"] = turn.feedback;
  return json;
}

// The trajectory with each turn written, or read, by `turn`.
template <typename TurnToJson>
Json write_trajectory(const Trajectory& trajectory, TurnToJson turn) {
  Json turns = Json::array();
  for (const Turn& each : trajectory.turns) turns.push_back(turn(each));
  return Json{{"id", trajectory.id},
              {"problem_id", trajectory.problem_id},
              {"group_id", trajectory.group_id},
              {"turns", std::move(turns)},
              {"temperature", trajectory.temperature},
              {"reward", trajectory.reward},
              {"turn_returns", trajectory.turn_returns},
              {"advantages", trajectory.advantages},
              {"carries_loss", trajectory.carries_loss}};
}

template <typename TurnFromJson>
Trajectory read_trajectory(const Json& json, TurnFromJson turn) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "trajectory: not a JSON object");
  Trajectory trajectory;
  trajectory.id = require<std::string>(json, "id", "trajectory");
  const std::string where = fmt::format("trajectory '{}'", trajectory.id);
  trajectory.problem_id = require<std::string>(json, "problem_id", where);
  trajectory.group_id = require<std::string>(json, "group_id", where);
  for (const Json& each : require_list(json, "turns", where))
    trajectory.turns.push_back(turn(each, fmt::format("{} turn {}", where, trajectory.turns.size())));
  trajectory.temperature = require<double>(json, "temperature", where);
  if (!(trajectory.temperature >= 0))
    fail(ErrorKind::kUsage, "{}: temperature {} is negative", where, trajectory.temperature);
  trajectory.reward = require<double>(json, "reward", where);
  trajectory.turn_returns = optional_field<std::vector<double>>(json, "turn_returns", {}, where);
  trajectory.advantages = optional_field<std::vector<double>>(json, "advantages", {}, where);
  trajectory.carries_loss = optional_field<std::vector<bool>>(json, "carries_loss", {}, where);
  const size_t count = trajectory.turns.size();
  if (!trajectory.turn_returns.empty())
    check_same_size(trajectory.turn_returns.size(), count, "turn_returns", "turns", where);
  if (!trajectory.advantages.empty())
    check_same_size(trajectory.advantages.size(), count, "advantages", "turns", where);
  if (!trajectory.carries_loss.empty())
    check_same_size(trajectory.carries_loss.size(), count, "carries_loss", "turns", where);
  return trajectory;
}

// Collects turns whose prompts continue one another.
class SequenceBuilder {
 public:
  SequenceBuilder(const Trajectory& trajectory, std::vector<TrainSequence>& out) : trajectory_(trajectory), out_(out) {}

  void add(const Turn& turn, float advantage, bool carries_loss) {
    const auto& so_far = sequence_.tokens;
    const bool continues = turn.prompt_tokens.size() >= so_far.size() &&
                           std::equal(so_far.begin(), so_far.end(), turn.prompt_tokens.begin());
    if (!continues) flush();
    for (size_t i = sequence_.tokens.size(); i < turn.prompt_tokens.size(); ++i) push(turn.prompt_tokens[i]);
    const bool trained = carries_loss && turn.status != TurnStatus::kFailed;
    for (size_t i = 0; i < turn.response_tokens.size(); ++i) {
      push(turn.response_tokens[i]);
      if (!trained || sequence_.tokens.size() == 1) continue;  // the first token has nothing to be predicted from
      sequence_.loss_mask.back() = 1;
      sequence_.old_log_probs.back() = turn.log_probs[i];
      sequence_.advantages.back() = advantage;
      sequence_.weight_versions.back() = turn.weight_versions[i];
    }
  }

  void flush() {
    // What follows the last token with loss would be computed for nothing.
    const auto last = std::find(sequence_.loss_mask.rbegin(), sequence_.loss_mask.rend(), 1);
    const size_t length = static_cast<size_t>(sequence_.loss_mask.rend() - last);
    if (length > 0) {
      sequence_.tokens.resize(length);
      sequence_.loss_mask.resize(length);
      sequence_.old_log_probs.resize(length);
      sequence_.advantages.resize(length);
      sequence_.weight_versions.resize(length);
      sequence_.trajectory_id = trajectory_.id;
      sequence_.temperature = trajectory_.temperature;
      out_.push_back(std::move(sequence_));
    }
    sequence_ = {};
  }

 private:
  void push(int64_t token) {
    sequence_.tokens.push_back(token);
    sequence_.loss_mask.push_back(0);
    sequence_.old_log_probs.push_back(0);
    sequence_.advantages.push_back(0);
    sequence_.weight_versions.push_back(-1);
  }

  const Trajectory& trajectory_;
  std::vector<TrainSequence>& out_;
  TrainSequence sequence_;
};

}  // namespace

Turn turn_from_json(const Json& json, const std::string& where) {
  Turn turn = transcript_turn(json, where);
  turn.prompt_tokens = token_ids(json, "prompt_tokens", where);
  turn.response_tokens = token_ids(json, "response_tokens", where);
  turn.log_probs = require<std::vector<float>>(json, "log_probs", where);
  turn.weight_versions = require<std::vector<int64_t>>(json, "weight_versions", where);
  check_same_size(turn.log_probs.size(), turn.response_tokens.size(), "log_probs", "response_tokens", where);
  check_same_size(turn.weight_versions.size(), turn.response_tokens.size(), "weight_versions", "response_tokens",
                  where);
  return turn;
}

std::string_view name_of(TurnStatus status) {
  for (const auto& [known, name] : kStatuses) {
    if (known == status) return name;
  }
  TF_CHECK(false, "turn status {} has no name", static_cast<int>(status));
  return {};
}

bool ended_by_failure(const Trajectory& trajectory) {
  return !trajectory.turns.empty() && trajectory.turns.back().status == TurnStatus::kFailed;
}

Json to_json(const Turn& turn) {
  // JSON has no NaN: it would be written as null and fail only when it is read back.
  for (const float value : turn.log_probs)
    TF_CHECK(std::isfinite(value), "log-probability {} of a sampled token", value);
  Json json = transcript_json(turn);
  json["prompt_tokens"] = turn.prompt_tokens;
  json["response_tokens"] = turn.response_tokens;
  json["log_probs"] = turn.log_probs;
  json["weight_versions"] = turn.weight_versions;
  return json;
}

Json to_json(const Trajectory& trajectory) {
  return write_trajectory(trajectory, [](const Turn& turn) { return to_json(turn); });
}

Json transcript_json(const Trajectory& trajectory) {
  return write_trajectory(trajectory, [](const Turn& turn) { return transcript_json(turn); });
}

Trajectory trajectory_from_json(const Json& json) { return read_trajectory(json, turn_from_json); }

Trajectory transcript_from_json(const Json& json) { return read_trajectory(json, transcript_turn); }

std::vector<TrainSequence> to_train_sequences(const Trajectory& trajectory) {
  if (trajectory.advantages.size() != trajectory.turns.size()) {
    fail(ErrorKind::kUsage, "trajectory '{}' has {} advantages for {} turns: its group is not complete", trajectory.id,
         trajectory.advantages.size(), trajectory.turns.size());
  }
  std::vector<TrainSequence> sequences;
  SequenceBuilder builder(trajectory, sequences);
  for (size_t i = 0; i < trajectory.turns.size(); ++i) {
    builder.add(trajectory.turns[i], static_cast<float>(trajectory.advantages[i]),
                trajectory.carries_loss.empty() || trajectory.carries_loss[i]);
  }
  builder.flush();
  return sequences;
}

}  // namespace tritonforge
