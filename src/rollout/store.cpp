#include "rollout/store.h"

#include "base/clock.h"
#include "rollout/credit.h"
#include "rollout/store_schema.h"
#include "rollout/stored_group.h"

namespace tritonforge::rollout {

Store::Store(const fs::path& path, Retention retention)
    : retention_(retention), database_(path), commits_(database_), reader_(Database::reader_of(path)) {
  prepare_schema(database_);
}

Store::Accepted Store::add_groups(const std::vector<GroupSpec>& groups) {
  Accepted result;
  commits_.run([&] {
    result = {};
    for (const GroupSpec& group : groups) {
      if (insert(database_, group, unix_seconds())) {
        result.accepted.push_back(group.id);
        result.groups.push_back(group);
      } else {
        result.known.push_back(group.id);
      }
    }
  });
  return result;
}

std::vector<Store::Unfinished> Store::unfinished() {
  std::lock_guard lock(reading_);
  const Transaction moment(reader_);
  std::vector<Unfinished> out;
  Statement groups = reader_.prepare(
      fmt::format("SELECT {} FROM groups g WHERE g.state = 'running' ORDER BY g.seq", kGroupColumns));
  while (groups.step()) {
    Unfinished entry{group_of(groups), {}};
    std::vector<bool> there(static_cast<size_t>(entry.group.n_samples), false);
    Statement samples = reader_.prepare("SELECT sample FROM trajectories WHERE group_id = ?");
    samples.bind(1, entry.group.id);
    while (samples.step()) there.at(static_cast<size_t>(samples.integer(0))) = true;
    for (int64_t i = 0; i < entry.group.n_samples; ++i) {
      if (!there[static_cast<size_t>(i)]) entry.missing.push_back(i);
    }
    out.push_back(std::move(entry));
  }
  return out;
}

std::vector<KeptTurn> Store::kept_turns(const std::string& group_id, int64_t sample) {
  std::lock_guard lock(reading_);
  std::vector<KeptTurn> turns;
  Statement rows = reader_.prepare(
      "SELECT judged, body, turn FROM turns WHERE group_id = ? AND sample = ? ORDER BY turn");
  rows.bind(1, group_id).bind(2, sample);
  while (rows.step() && rows.integer(2) == std::ssize(turns))
    turns.push_back({turn_from_json(parse_json(rows.text(1), "stored turn"), "stored turn"), rows.integer(0) != 0});
  return turns;
}

void Store::keep_turn(const std::string& group_id, int64_t sample, int64_t index, const KeptTurn& kept) {
  const std::string body = to_json(kept.turn).dump();
  commits_.run([&] {
    database_
        .prepare(
            "INSERT INTO turns(group_id, sample, turn, judged, body) SELECT ?1, ?2, ?3, ?4, ?5 WHERE NOT "
            "EXISTS (SELECT 1 FROM trajectories WHERE group_id = ?1 AND sample = ?2) "
            "ON CONFLICT DO UPDATE SET judged = excluded.judged, body = excluded.body WHERE NOT turns.judged")
        .bind(1, group_id)
        .bind(2, sample)
        .bind(3, index)
        .bind(4, int64_t{kept.judged})
        .bind(5, body)
        .run();
  });
}

bool Store::write_trajectory(const Trajectory& trajectory, int64_t sample) {
  const TrajectoryRow row(trajectory);
  bool complete = false;
  commits_.run([&] {
    complete = false;
    {
      Statement group = database_.prepare("SELECT n_samples FROM groups WHERE id = ?");
      group.bind(1, row.group_id);
      if (!group.step()) fail(ErrorKind::kNotFound, "there is no group {}", row.group_id);
      if (sample < 0 || sample >= group.integer(0))
        fail(ErrorKind::kUsage, "group {} has {} samples, none is number {}", row.group_id, group.integer(0), sample);
    }
    if (!insert(database_, row, sample, unix_seconds())) return;
    database_.prepare("DELETE FROM turns WHERE group_id = ? AND sample = ?")
        .bind(1, row.group_id)
        .bind(2, sample)
        .run();
    {
      Statement count = database_.prepare(
          "SELECT (SELECT count(*) FROM trajectories WHERE group_id = ?1) >= n_samples FROM groups WHERE id = ?1 AND "
          "state = 'running'");
      count.bind(1, row.group_id);
      complete = count.step() && count.integer(0) != 0;
    }
    if (complete) complete_group(row.group_id);
  });
  return complete;
}

void Store::complete_group(const std::string& group_id) {
  const RolloutOptions options = group_named(database_, group_id).options;
  const std::vector<Outline> outlines = stored_outlines(database_, group_id);
  std::vector<TrajectoryReturns> returns;
  for (const Outline& outline : outlines) returns.push_back({outline.turn_returns, !outline.failed});
  GroupAdvantages group = group_advantages(returns, options.credit, options.advantage);
  if (options.overlong == Overlong::kMask) {
    for (size_t i = 0; i < outlines.size(); ++i) {
      for (size_t t = 0; t < outlines[i].cut.size(); ++t) {
        if (outlines[i].cut[t]) group.compared[i][t] = false;
      }
    }
  }
  database_
      .prepare(
          "UPDATE groups SET state = 'complete', reason = ?, credit = ?, reward_variance = ?, pass_rate = ? WHERE id = "
          "?")
      .bind(1, group.reason)
      .bind(2, text_of(GroupCredit{std::move(group.advantages), std::move(group.compared)}))
      .bind(3, reward_variance(outlines))
      .bind(4, pass_rate(outlines))
      .bind(5, group_id)
      .run();
}

}  // namespace tritonforge::rollout
