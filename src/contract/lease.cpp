#include "contract/lease.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace tritonforge {
namespace {

Json to_json(const RolloutFigures& figures) {
  return {{"trajectories", figures.trajectories},
          {"failed", figures.failed},
          {"compiled", figures.compiled},
          {"passed_first_turn", figures.passed_first_turn},
          {"passed", figures.passed},
          {"turns", figures.turns},
          {"response_tokens", figures.response_tokens},
          {"reward", figures.reward},
          {"generate_s", figures.generate_s},
          {"evaluate_s", figures.evaluate_s}};
}

RolloutFigures figures_from_json(const Json& json, const std::string& where) {
  RolloutFigures figures;
  figures.trajectories = require<int64_t>(json, "trajectories", where);
  figures.failed = require<int64_t>(json, "failed", where);
  figures.compiled = require<int64_t>(json, "compiled", where);
  figures.passed_first_turn = require<int64_t>(json, "passed_first_turn", where);
  figures.passed = require<int64_t>(json, "passed", where);
  figures.turns = require<int64_t>(json, "turns", where);
  figures.response_tokens = require<int64_t>(json, "response_tokens", where);
  figures.reward = require<double>(json, "reward", where);
  figures.generate_s = require<double>(json, "generate_s", where);
  figures.evaluate_s = require<double>(json, "evaluate_s", where);
  return figures;
}

LeaseOrder order_from_json(const Json& json, LeaseOrder fallback, const std::string& where) {
  return from_name<LeaseOrder>(optional_field(json, "order", std::string(name_of(fallback)), where), where + " order");
}

Replay replay_from_json(const Json& json, const std::string& where) {
  check_keys(json, {"groups", "leases", "order", "of"}, where);
  Replay replay;
  replay.groups = require<int64_t>(json, "groups", where);
  replay.leases = optional_field(json, "leases", replay.leases, where);
  replay.order = order_from_json(json, replay.order, where);
  replay.of = optional_field(json, "of", replay.of, where);
  if (replay.groups < 0) fail(ErrorKind::kUsage, "{}: 'groups' is {}", where, replay.groups);
  if (replay.leases < 1) fail(ErrorKind::kUsage, "{}: 'leases' must be at least 1, not {}", where, replay.leases);
  return replay;
}

}  // namespace

std::string lease_path(std::string_view lease_id, std::string_view verb) {
  return fmt::format("/v2/leases/{}{}{}", percent_encode(lease_id), verb.empty() ? "" : "/", verb);
}

Json to_json(const LeaseRequest& request) {
  Json json = {{"lease_id", request.lease_id},
               {"count", request.count},
               {"samples", request.samples},
               {"timeout_s", request.timeout_s}};
  if (!request.group_ids.empty()) json["group_ids"] = request.group_ids;
  if (!request.of.empty()) json["of"] = request.of;
  if (!request.at_least.empty()) json["at_least"] = request.at_least;
  if (request.order != LeaseOrder::kAge) json["order"] = name_of(request.order);
  if (request.replay.groups > 0) {
    json["replay"] = {{"groups", request.replay.groups},
                      {"leases", request.replay.leases},
                      {"order", name_of(request.replay.order)},
                      {"of", request.replay.of}};
  }
  return json;
}

LeaseRequest lease_request_from_json(const Json& body) {
  const std::string where = "POST /v2/groups/lease";
  check_keys(body, {"count", "lease_id", "group_ids", "of", "at_least", "samples", "timeout_s", "order", "replay"},
             where);
  LeaseRequest request;
  request.lease_id = require<std::string>(body, "lease_id", where);
  request.group_ids = optional_field(body, "group_ids", std::vector<std::string>{}, where);
  request.count = optional_field(
      body, "count", request.group_ids.empty() ? int64_t{1} : static_cast<int64_t>(request.group_ids.size()), where);
  if (!request.group_ids.empty() && request.count != static_cast<int64_t>(request.group_ids.size())) {
    fail(ErrorKind::kUsage, "{}: 'count' is {}, but {} group_ids are named", where, request.count,
         request.group_ids.size());
  }
  request.of = optional_field(body, "of", request.of, where);
  request.at_least = optional_field(body, "at_least", request.at_least, where);
  if (!request.group_ids.empty() && !(request.of.empty() && request.at_least.empty()))
    fail(ErrorKind::kUsage, "{}: 'of' and 'at_least' are for any groups, and 'group_ids' names them all", where);
  request.samples = optional_field(body, "samples", request.samples, where);
  if (request.samples < 0) fail(ErrorKind::kUsage, "{}: 'samples' is {}", where, request.samples);
  request.timeout_s = std::max(0.0, optional_field(body, "timeout_s", request.timeout_s, where));
  request.order = order_from_json(body, request.order, where);
  if (body.contains("replay")) request.replay = replay_from_json(body.at("replay"), where + " replay");
  return request;
}

void RolloutFigures::add(const Trajectory& trajectory) {
  if (trajectory.turns.empty()) return;
  trajectories += 1;
  for (const Turn& turn : trajectory.turns) {
    response_tokens += static_cast<int64_t>(turn.response_tokens.size());
    generate_s += turn.generate_s;
    evaluate_s += turn.evaluate_s;
  }
  if (ended_by_failure(trajectory)) {
    failed += 1;
    return;
  }
  const auto passes = [](const Turn& turn) { return turn.verdict.correct && !turn.verdict.cheated(); };
  const Turn& first = trajectory.turns.front();
  compiled += first.verdict.compiled;
  passed_first_turn += passes(first);
  passed += std::any_of(trajectory.turns.begin(), trajectory.turns.end(), passes);
  turns += static_cast<int64_t>(trajectory.turns.size());
  reward += trajectory.reward;
}

Json to_json(const Lease& lease) {
  Json groups = Json::array(), dropped = Json::array();
  for (const LeasedGroup& group : lease.groups) {
    Json samples = Json::array();
    for (const Trajectory& trajectory : group.samples) samples.push_back(transcript_json(trajectory));
    groups.push_back({{"group_id", group.group_id},
                      {"problem_id", group.problem_id},
                      {"replayed", group.replayed},
                      {"figures", to_json(group.figures)},
                      {"samples", std::move(samples)}});
  }
  for (const DroppedGroup& group : lease.dropped)
    dropped.push_back({{"group_id", group.group_id}, {"reason", group.reason}});
  return {{"lease_id", lease.id},
          {"figures", to_json(lease.figures)},
          {"groups", std::move(groups)},
          {"dropped", std::move(dropped)}};
}

Lease lease_from_json(const Json& json) {
  if (!json.is_object()) fail(ErrorKind::kUsage, "lease: not a JSON object");
  Lease lease;
  lease.id = require<std::string>(json, "lease_id", "lease");
  const std::string where = fmt::format("lease '{}'", lease.id);
  lease.figures = figures_from_json(require<Json>(json, "figures", where), where + " figures");
  for (const Json& item : require_list(json, "groups", where)) {
    LeasedGroup group;
    group.group_id = require<std::string>(item, "group_id", where + " groups");
    group.problem_id = require<std::string>(item, "problem_id", where + " groups");
    group.replayed = optional_field(item, "replayed", false, where + " groups");
    group.figures = figures_from_json(require<Json>(item, "figures", where + " groups"), where + " groups figures");
    for (const Json& sample : require_list(item, "samples", where + " groups"))
      group.samples.push_back(transcript_from_json(sample));
    lease.groups.push_back(std::move(group));
  }
  for (const Json& item : require_list(json, "dropped", where)) {
    lease.dropped.push_back({require<std::string>(item, "group_id", where + " dropped"),
                             require<std::string>(item, "reason", where + " dropped")});
  }
  return lease;
}

Json to_json(const GroupProgress& progress) {
  return {{"trajectories", progress.trajectories},
          {"correct", progress.correct},
          {"failed", progress.failed},
          {"turns", progress.turns}};
}

GroupProgress group_progress_from_json(const Json& json) {
  constexpr std::string_view where = "GET /v2/progress";
  return {.trajectories = require<int64_t>(json, "trajectories", where),
          .correct = require<int64_t>(json, "correct", where),
          .failed = require<int64_t>(json, "failed", where),
          .turns = require<int64_t>(json, "turns", where)};
}

}  // namespace tritonforge
