#include "train/wire.h"

#include <algorithm>
#include <cmath>

namespace tritonforge::train {
namespace {

const Json& list_field(const Json& object, const char* field, const std::string& where) {
  if (!object.is_object()) fail(ErrorKind::kUsage, "{} must be an object", where);
  const auto found = object.find(field);
  if (found == object.end() || !found->is_array())
    fail(ErrorKind::kUsage, "{}: field '{}' must be a list", where, field);
  return *found;
}

// Read by hand: a step has some 50k tokens, and a wrong one is named.
std::vector<int64_t> integers(const Json& object, const char* field, const std::string& where) {
  const Json& list = list_field(object, field, where);
  std::vector<int64_t> values;
  values.reserve(list.size());
  for (const Json& item : list) {
    if (item.is_boolean()) {
      values.push_back(item.get<bool>());
    } else if (item.is_number_integer()) {
      values.push_back(item.get<int64_t>());
    } else {
      fail(ErrorKind::kUsage, "{}: {}[{}] must be an integer, not {}", where, field, values.size(),
           item.dump().substr(0, 40));
    }
  }
  return values;
}

TrainSequence sft_sequence(const Json& json, const std::string& where) {
  TrainSequence sequence;
  sequence.tokens = integers(json, "tokens", where);
  for (const int64_t mask : integers(json, "loss_mask", where)) {
    if (mask != 0 && mask != 1) fail(ErrorKind::kUsage, "{}: loss_mask holds {}, not 0 or 1", where, mask);
    sequence.loss_mask.push_back(static_cast<uint8_t>(mask));
  }
  const size_t n = sequence.tokens.size();
  sequence.old_log_probs.assign(n, 0.0f);
  sequence.advantages.assign(n, 0.0f);
  sequence.weight_versions.assign(n, -1);
  sequence.trajectory_id = optional_field<std::string>(json, "id", "", where);
  return sequence;
}

}  // namespace

std::string_view name_of(StepKind kind) { return kind == StepKind::kSft ? "sft" : "rl"; }

StepRequest step_request_from_json(const Json& body) {
  const std::string where = "POST /step";
  if (!body.is_object()) fail(ErrorKind::kUsage, "{}: the body must be an object", where);
  StepRequest request;
  request.step = require<int64_t>(body, "step", where);
  const auto kind = require<std::string>(body, "kind", where);
  if (kind == "rl") {
    request.kind = StepKind::kRl;
    request.lease_id = require<std::string>(body, "lease_id", where);
    request.buffer = require<std::string>(body, "buffer", where);
    if (request.lease_id.empty() || request.lease_id.find_first_of("/?#% ") != std::string::npos) {
      fail(ErrorKind::kUsage, "{}: lease_id '{}' is not a path segment", where, request.lease_id);
    }
    while (request.buffer.ends_with('/')) request.buffer.pop_back();
    return request;
  }
  if (kind != "sft") fail(ErrorKind::kUsage, "{}: unknown kind '{}'{}", where, kind, nearest_hint(kind, {"sft", "rl"}));
  const Json& sequences = list_field(body, "sequences", where);
  for (size_t i = 0; i < sequences.size(); ++i) {
    request.sequences.push_back(sft_sequence(sequences[i], fmt::format("{}: sequences[{}]", where, i)));
  }
  return request;
}

LeasedBatch leased_batch_from_json(const Json& body) {
  const std::string where = "the buffer's lease";
  LeasedBatch batch;
  double reward = 0;
  for (const Json& group : list_field(body, "groups", where)) {
    bool learns = false;
    for (const Json& json : list_field(group, "trajectories", where + ": a group")) {
      const Trajectory trajectory = trajectory_from_json(json);
      learns |= std::any_of(trajectory.advantages.begin(), trajectory.advantages.end(),
                            [](double a) { return a != 0; });
      reward += trajectory.reward;
      batch.trajectories += 1;
      for (TrainSequence& sequence : to_train_sequences(trajectory)) batch.sequences.push_back(std::move(sequence));
    }
    batch.groups += 1;
    batch.zero_variance_groups += !learns;
  }
  if (batch.trajectories > 0) batch.reward_mean = reward / static_cast<double>(batch.trajectories);
  return batch;
}

Json to_json(const StepMetrics& metrics) {
  Json json = {{"step", metrics.step}, {"kind", metrics.kind}};
  for (const auto& [name, value] : metrics.values) json[name] = std::isfinite(value) ? Json(value) : Json();
  return json;
}

}  // namespace tritonforge::train
