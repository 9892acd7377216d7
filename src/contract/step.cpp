#include "contract/step.h"

#include <cmath>
#include <limits>

namespace tritonforge {
namespace {

// Read by hand: a step has some 50k tokens, and a wrong one is named.
std::vector<int64_t> integers(const Json& object, const char* field, const std::string& where) {
  const Json& list = require_list(object, field, where);
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

Json to_json(const StepRequest& request) {
  TF_CHECK(request.sequences.empty(), "the sequences of SFT step {} travel in binary", request.step);
  if (request.kind == StepKind::kSft) return {{"kind", name_of(request.kind)}, {"step", request.step}};
  return {{"kind", name_of(request.kind)},
          {"step", request.step},
          {"lease_id", request.lease_id},
          {"buffer", request.buffer},
          {"weight_version", request.weight_version}};
}

StepRequest step_request_from_json(const Json& body) {
  const std::string where = "POST /step";
  if (!body.is_object()) fail(ErrorKind::kUsage, "{}: the body must be an object", where);
  StepRequest request;
  request.step = require<int64_t>(body, "step", where);
  request.kind = from_name<StepKind>(require<std::string>(body, "kind", where), "kind");
  if (request.kind == StepKind::kRl) {
    request.lease_id = require<std::string>(body, "lease_id", where);
    request.buffer = require<std::string>(body, "buffer", where);
    request.weight_version = optional_field<int64_t>(body, "weight_version", -1, where);
    if (request.lease_id.empty() || request.lease_id.find_first_of("/?#% ") != std::string::npos) {
      fail(ErrorKind::kUsage, "{}: lease_id '{}' is not a path segment", where, request.lease_id);
    }
    while (request.buffer.ends_with('/')) request.buffer.pop_back();
    return request;
  }
  if (!body.contains("sequences")) return request;  // they were sent ahead
  const Json& sequences = require_list(body, "sequences", where);
  for (size_t i = 0; i < sequences.size(); ++i) {
    request.sequences.push_back(sft_sequence(sequences[i], fmt::format("{}: sequences[{}]", where, i)));
  }
  return request;
}

StepRequest sft_step_from_binary(std::string_view bytes) {
  SequenceBatch batch = batch_from_binary(bytes);
  StepRequest request;
  request.step = batch.step;
  request.sequences = std::move(batch.sequences);
  return request;
}

Json figures_json(const StepMetrics& metrics) {
  Json json = Json::object();
  for_each_figure(metrics, [&](const char* name, double value) {
    json[name] = std::isfinite(value) ? Json(value) : Json();  // JSON has no NaN
  });
  return json;
}

void read_figures(const Json& figures, StepMetrics& metrics, const std::string& where) {
  if (!figures.is_object()) fail(ErrorKind::kUsage, "{} must be an object", where);
  if (figures.contains("clip_fraction")) metrics.policy.emplace();
  if (figures.contains("zero_variance_groups")) metrics.batch.emplace();
  for_each_figure(metrics, [&](const char* name, double& value) {
    if (const auto found = figures.find(name); found != figures.end() && found->is_null())
      value = std::numeric_limits<double>::quiet_NaN();
    else value = optional_field<double>(figures, name, 0, where);
  });
}

Json to_json(const StepMetrics& metrics) {
  Json json = figures_json(metrics);
  json["step"] = metrics.step;
  json["kind"] = name_of(metrics.kind);
  return json;
}

Json to_json(const StepResult& result) {
  Json json = to_json(result.metrics);
  if (!result.checkpoint.empty()) json["checkpoint"] = result.checkpoint;
  if (!result.checkpoint_error.empty()) json["checkpoint_error"] = result.checkpoint_error;
  if (result.repeated) json["repeated"] = true;
  if (!result.set_aside.empty()) json["set_aside"] = result.set_aside;
  if (result.ahead) json["ahead"] = true;
  return json;
}

StepResult step_result_from_json(const Json& json) {
  const std::string where = "the trainer's reply to POST /step";
  StepResult result;
  result.metrics.step = require<int64_t>(json, "step", where);
  result.metrics.kind = from_name<StepKind>(require<std::string>(json, "kind", where), "kind");
  read_figures(json, result.metrics, where);
  result.checkpoint = optional_field<std::string>(json, "checkpoint", "", where);
  result.checkpoint_error = optional_field<std::string>(json, "checkpoint_error", "", where);
  result.repeated = optional_field<bool>(json, "repeated", false, where);
  result.set_aside = optional_field<std::vector<std::string>>(json, "set_aside", {}, where);
  result.ahead = optional_field<bool>(json, "ahead", false, where);
  return result;
}

TrainerStatus trainer_status_from_json(const Json& json) {
  const std::string where = "the trainer's status";
  return {require<int64_t>(json, "step", where), require<int64_t>(json, "checkpoint_step", where)};
}

}  // namespace tritonforge
