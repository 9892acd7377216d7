#include "rollout/work.h"

#include "base/binary.h"
#include "rollout/stored_group.h"
#include "rollout/token_record.h"

namespace tritonforge::rollout {
namespace {

struct CountField {
  const char* name;
  int64_t ActivityCounts::* value;
};
constexpr CountField kCounts[] = {
    {"running", &ActivityCounts::running},           {"generating", &ActivityCounts::generating},
    {"evaluating", &ActivityCounts::evaluating},     {"turns", &ActivityCounts::turns},
    {"failed_turns", &ActivityCounts::failed_turns}, {"sampled_tokens", &ActivityCounts::sampled_tokens}};

}  // namespace

Json to_json(const WorkItem& item) {
  Json kept = Json::array();
  for (const KeptTurn& turn : item.kept) kept.push_back({{"turn", to_json(turn.turn)}, {"judged", turn.judged}});
  const GroupSpec& group = item.group;
  Json spec = {{"group_id", group.id},
               {"problem_id", group.problem_id},
               {"problem_source", group.problem_source},
               {"n_samples", group.n_samples},
               {"seed", group.seed}};
  if (!group.messages.empty()) spec["messages"] = messages_to_json(group.messages);
  return {{"group", std::move(spec)},
          {"options", to_json(group.options)},
          {"sample", item.sample},
          {"kept", std::move(kept)}};
}

WorkItem work_item_from_json(const Json& json, const std::string& where) {
  WorkItem item;
  const auto options = rollout_options_from_json(require<Json>(json, "options", where), where + " options");
  item.group = group_spec_from_json(require<Json>(json, "group", where), options, where + " group");
  item.sample = require<int64_t>(json, "sample", where);
  for (const Json& turn : require_list(json, "kept", where)) {
    item.kept.push_back({turn_from_json(require<Json>(turn, "turn", where), where + " kept turn"),
                         require<bool>(turn, "judged", where)});
  }
  return item;
}

ActivityCounts& ActivityCounts::operator+=(const ActivityCounts& other) {
  for (const CountField& field : kCounts) this->*field.value += other.*field.value;
  return *this;
}

Json to_json(const WorkRequest& request) {
  Json activity = Json::object();
  for (const CountField& field : kCounts) activity[field.name] = request.activity.*field.value;
  return {{"worker", request.worker},          {"count", request.count},          {"timeout_s", request.timeout_s},
          {"holding", request.holding},        {"activity", std::move(activity)}, {"leaving", request.leaving},
          {"refused_key", request.refused_key}};
}

WorkRequest work_request_from_json(const Json& body) {
  const std::string where = "POST /v2/work";
  check_keys(body, {"worker", "count", "timeout_s", "holding", "activity", "refused_key", "leaving"}, where);
  WorkRequest request;
  request.worker = require<std::string>(body, "worker", where);
  if (request.worker.empty()) fail(ErrorKind::kUsage, "{}: 'worker' is empty", where);
  request.count = optional_field(body, "count", request.count, where);
  if (request.count < 0) fail(ErrorKind::kUsage, "{}: 'count' is {}", where, request.count);
  request.timeout_s = std::max(0.0, optional_field(body, "timeout_s", request.timeout_s, where));
  request.holding = optional_field(body, "holding", request.holding, where);
  request.refused_key = optional_field(body, "refused_key", request.refused_key, where);
  request.leaving = optional_field(body, "leaving", request.leaving, where);
  const Json activity = optional_field(body, "activity", Json::object(), where);
  for (const CountField& field : kCounts)
    request.activity.*field.value = optional_field(activity, field.name, int64_t{0}, where + " activity");
  return request;
}

std::string to_bytes(const Trajectory& trajectory) {
  const std::string transcript = transcript_json(trajectory).dump();
  BinaryWriter out;
  out.value(static_cast<uint32_t>(transcript.size()));
  out.text(transcript);
  out.text(token_record(trajectory));
  return out.take();
}

Trajectory trajectory_from_bytes(std::string_view bytes) {
  const std::string where = "a trajectory";
  BinaryReader in(bytes);
  const auto length = in.value<uint32_t>(where);
  Trajectory trajectory = transcript_from_json(parse_json(in.text(length, where), where));
  add_tokens(trajectory, in.text(in.left(), where));
  return trajectory;
}

}  // namespace tritonforge::rollout
