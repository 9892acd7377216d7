#include "rollout/stored_trajectory.h"

#include <algorithm>

#include "rollout/token_record.h"

namespace tritonforge::rollout {
namespace {

GroupCredit credit_from_text(const std::string& text) {
  const Json json = parse_json(text, "stored credit");
  GroupCredit credit;
  if (json.empty()) return credit;
  credit.advantages = require<std::vector<std::vector<double>>>(json, "advantages", "stored credit");
  credit.carries_loss = require<std::vector<std::vector<bool>>>(json, "carries_loss", "stored credit");
  return credit;
}

// The mean of `value` over those that no failure of ours ended.
template <typename Value>
double mean_of(const std::vector<Outline>& group, Value value) {
  double sum = 0, count = 0;
  for (const Outline& trajectory : group) {
    if (trajectory.failed) continue;
    sum += value(trajectory);
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

double best_speedup(const Trajectory& trajectory) {
  double best = 0;
  for (const Turn& turn : trajectory.turns) {
    if (turn.verdict.correct && !turn.verdict.cheated()) best = std::max(best, turn.verdict.speedup);
  }
  return best;
}

Trajectory decode(const StoredTrajectory& stored, const GroupCredit& credit, size_t sample) {
  Trajectory trajectory = transcript_from_json(parse_json(stored.body, "stored trajectory"));
  if (!stored.record.empty()) add_tokens(trajectory, stored.record);
  if (sample < credit.advantages.size()) {
    trajectory.advantages = credit.advantages[sample];
    trajectory.carries_loss = credit.carries_loss.at(sample);
  }
  return trajectory;
}

}  // namespace

std::string text_of(const GroupCredit& credit) {
  return Json{{"advantages", credit.advantages}, {"carries_loss", credit.carries_loss}}.dump();
}

std::optional<GroupCredit> credit_of(const std::vector<Trajectory>& group) {
  GroupCredit credit;
  for (const Trajectory& trajectory : group) {
    if (trajectory.advantages.size() != trajectory.turns.size()) return std::nullopt;
    credit.advantages.push_back(trajectory.advantages);
    credit.carries_loss.push_back(trajectory.carries_loss);
  }
  return credit;
}

bool is_correct(const Trajectory& trajectory) {
  return std::ranges::any_of(trajectory.turns,
                             [](const Turn& turn) { return turn.verdict.correct && !turn.verdict.cheated(); });
}

Outline outline_of(const Trajectory& trajectory) {
  Outline outline{trajectory.reward, is_correct(trajectory), ended_by_failure(trajectory), trajectory.turn_returns, {}};
  for (const Turn& turn : trajectory.turns) outline.cut.push_back(turn.status == TurnStatus::kTruncated);
  return outline;
}

std::vector<Outline> stored_outlines(Database& database, const std::string& group_id) {
  std::vector<Outline> group;
  Statement rows = database.prepare(
      "SELECT reward, correct, failed, outline FROM trajectories WHERE group_id = ? ORDER BY sample");
  rows.bind(1, group_id);
  while (rows.step()) {
    const Json json = parse_json(rows.text(3), "stored outline");
    group.push_back({rows.number(0), rows.integer(1) != 0, rows.integer(2) != 0,
                     require<std::vector<double>>(json, "returns", "stored outline"),
                     require<std::vector<bool>>(json, "cut", "stored outline")});
  }
  return group;
}

double reward_variance(const std::vector<Outline>& group) {
  const double mean = mean_of(group, [](const Outline& t) { return t.reward; });
  return mean_of(group, [mean](const Outline& t) { return (t.reward - mean) * (t.reward - mean); });
}

double pass_rate(const std::vector<Outline>& group) {
  return mean_of(group, [](const Outline& t) { return t.correct ? 1.0 : 0.0; });
}

TrajectoryRow::TrajectoryRow(const Trajectory& trajectory)
    : id(trajectory.id),
      group_id(trajectory.group_id),
      body(transcript_json(trajectory).dump()),
      record(token_record(trajectory)),
      outline(outline_of(trajectory)),
      speedup(best_speedup(trajectory)),
      turns(static_cast<int64_t>(trajectory.turns.size())) {}

bool insert(Database& database, const TrajectoryRow& row, int64_t sample, double created, std::optional<int64_t> seq) {
  {
    Statement insert = database.prepare(
        "INSERT OR IGNORE INTO trajectories(seq, id, group_id, sample, reward, turns, correct, failed, speedup, "
        "created, outline, body) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    const Json outline = {{"returns", row.outline.turn_returns}, {"cut", row.outline.cut}};
    if (seq) insert.bind(1, *seq);
    insert.bind(2, row.id).bind(3, row.group_id).bind(4, sample).bind(5, row.outline.reward);
    insert.bind(6, row.turns).bind(7, int64_t{row.outline.correct}).bind(8, int64_t{row.outline.failed});
    insert.bind(9, row.speedup).bind(10, created).bind(11, outline.dump()).bind(12, row.body).run();
  }
  if (database.changes() == 0) return false;
  database.prepare("INSERT INTO tokens(trajectory, record) VALUES(last_insert_rowid(), ?)")
      .bind_bytes(1, row.record)
      .run();
  return true;
}

Trajectory trajectory_of(const StoredTrajectory& stored, const std::string& credit, size_t sample) {
  return decode(stored, credit_from_text(credit), sample);
}

StoredGroup stored_group(Database& database, const std::string& group_id) {
  StoredGroup group;
  group.id = group_id;
  {
    Statement row = database.prepare("SELECT problem_id, reason, credit FROM groups WHERE id = ?");
    row.bind(1, group_id);
    if (!row.step()) fail(ErrorKind::kNotFound, "there is no group {}", group_id);
    group.problem_id = row.text(0);
    group.reason = row.text(1);
    group.credit = row.text(2);
  }
  Statement rows = database.prepare(
      "SELECT t.sample, t.body, k.record FROM trajectories t LEFT JOIN tokens k ON k.trajectory = t.seq WHERE "
      "t.group_id = ? "
      "ORDER BY t.sample");
  rows.bind(1, group_id);
  while (rows.step()) group.rows.push_back({static_cast<size_t>(rows.integer(0)), {rows.text(1), rows.bytes(2)}});
  return group;
}

std::vector<Trajectory> trajectories_of(const StoredGroup& group) {
  const GroupCredit credit = credit_from_text(group.credit);
  std::vector<Trajectory> trajectories;
  for (const auto& [sample, stored] : group.rows) trajectories.push_back(decode(stored, credit, sample));
  return trajectories;
}

std::string text_of(const StoredGroup& group) {
  std::string text;
  for (const Trajectory& trajectory : trajectories_of(group)) {
    text += text.empty() ? '[' : ',';
    text += to_json(trajectory).dump();
  }
  return text.empty() ? "[]" : text + ']';
}

}  // namespace tritonforge::rollout
