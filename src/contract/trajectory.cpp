#include "contract/trajectory.h"

#include <algorithm>
#include <cmath>

#include "contract/field_lists.h"

namespace tritonforge {
namespace {

void check_same_size(size_t got, size_t expected, const char* field, const char* other, std::string_view where) {
  if (got != expected) {
    fail(ErrorKind::kUsage, "{}: '{}' has {} entries, '{}' has {}", where, field, got, other, expected);
  }
}

void check_token_ids(const std::vector<int64_t>& ids, const char* key, std::string_view where) {
  for (const int64_t id : ids) {
    if (id < 0) fail(ErrorKind::kUsage, "{}: '{}' holds the negative token id {}", where, key, id);
  }
}

void check_tokens(const Turn& turn, std::string_view where) {
  check_token_ids(turn.prompt_tokens, "prompt_tokens", where);
  check_token_ids(turn.response_tokens, "response_tokens", where);
  check_same_size(turn.log_probs.size(), turn.response_tokens.size(), "log_probs", "response_tokens", where);
  check_same_size(turn.weight_versions.size(), turn.response_tokens.size(), "weight_versions", "response_tokens",
                  where);
}

// JSON has no NaN: it would be written as null and fail only when it is read back.
void check_finite(const Turn& turn, bool tokens) {
  TF_CHECK(std::isfinite(turn.reward), "turn reward is {}", turn.reward);
  if (!tokens) return;
  for (const float value : turn.log_probs)
    TF_CHECK(std::isfinite(value), "log-probability {} of a sampled token", value);
}

Json write_trajectory(const Trajectory& trajectory, bool tokens) {
  for (const Turn& turn : trajectory.turns) check_finite(turn, tokens);
  return write_fields(trajectory, tokens);
}

Trajectory read_trajectory(const Json& json, bool tokens) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "trajectory: not a JSON object");
  const std::string where = fmt::format("trajectory '{}'", require<std::string>(json, "id", "trajectory"));
  Trajectory trajectory;
  read_fields(json, trajectory, where, tokens);
  if (!(trajectory.temperature >= 0))
    fail(ErrorKind::kUsage, "{}: temperature {} is negative", where, trajectory.temperature);
  const size_t count = trajectory.turns.size();
  for (size_t i = 0; tokens && i < count; ++i) check_tokens(trajectory.turns[i], fmt::format("{} turn {}", where, i));
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

std::string_view name_of(TurnStatus status) { return name_of<TurnStatus>(status); }

bool ended_by_failure(const Trajectory& trajectory) {
  return !trajectory.turns.empty() && trajectory.turns.back().status == TurnStatus::kFailed;
}

Json to_json(const Turn& turn) {
  check_finite(turn, true);
  return write_fields(turn);
}

Turn turn_from_json(const Json& json, const std::string& where) {
  Turn turn;
  read_fields(json, turn, where);
  check_tokens(turn, where);
  return turn;
}

Json to_json(const Trajectory& trajectory) { return write_trajectory(trajectory, true); }

Json transcript_json(const Trajectory& trajectory) { return write_trajectory(trajectory, false); }

Trajectory trajectory_from_json(const Json& json) { return read_trajectory(json, true); }

Trajectory transcript_from_json(const Json& json) { return read_trajectory(json, false); }

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
