// The part of the store that people and dashboards read: no query looks at more rows than it answers with.
#include "rollout/store.h"
#include "rollout/stored_group.h"

namespace tritonforge::rollout {
namespace {

// The text behind every text that begins with `prefix`: what is between them is those.
std::string behind(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xFF) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

}  // namespace

Store::Counts Store::counts() {
  std::lock_guard lock(reading_);
  const Transaction moment(reader_);
  Counts out;
  double reward = 0;
  Statement totals = reader_.prepare("SELECT name, value FROM totals");
  while (totals.step()) {
    const std::string name = totals.text(0);
    if (name.starts_with("groups.")) out.groups[name.substr(7)] = totals.integer(1);
    if (name == "trajectories") out.trajectories = totals.integer(1);
    if (name == "stored") out.stored = totals.integer(1);
    if (name == "turns") out.turns = totals.integer(1);
    if (name == "correct") out.correct = totals.integer(1);
    if (name == "failed") out.failed = totals.integer(1);
    if (name == "commits") out.commits = totals.integer(1);
    if (name == "reward") reward = totals.number(1);
  }
  const int64_t judged = out.trajectories - out.failed;
  out.mean_reward = judged > 0 ? reward / static_cast<double>(judged) : 0;
  Statement recent = reader_.prepare(
      "SELECT coalesce(avg(reward), 0) FROM (SELECT reward FROM (SELECT reward, failed FROM trajectories ORDER BY seq "
      "DESC LIMIT 256) WHERE NOT failed)");
  if (recent.step()) out.recent_mean_reward = recent.number(0);
  Statement leases = reader_.prepare("SELECT count(*) FROM leases WHERE state = 'leased'");
  if (leases.step()) out.leases = leases.integer(0);
  Statement size = reader_.prepare("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
  if (size.step()) out.bytes = size.integer(0);
  return out;
}

GroupProgress Store::progress(const std::string& group_prefix) {
  std::lock_guard lock(reading_);
  const Transaction moment(reader_);
  if (group_prefix.empty()) {
    Statement row = reader_.prepare(
        "SELECT total(value) FILTER (WHERE name = 'trajectories'), total(value) FILTER (WHERE name = 'correct'), "
        "total(value) FILTER (WHERE name = 'failed'), total(value) FILTER (WHERE name = 'turns') + (SELECT count(*) "
        "FROM turns WHERE judged = 1) FROM totals");
    row.step();
    return {
        .trajectories = row.integer(0), .correct = row.integer(1), .failed = row.integer(2), .turns = row.integer(3)};
  }
  Statement row = reader_.prepare(
      "SELECT count(*), total(correct), total(failed), total(turns) + (SELECT count(*) FROM turns WHERE judged = 1 "
      "AND group_id >= ?1 AND group_id < ?2) FROM trajectories WHERE group_id >= ?1 AND group_id < ?2");
  row.bind(1, group_prefix).bind(2, behind(group_prefix));
  row.step();
  return {.trajectories = row.integer(0), .correct = row.integer(1), .failed = row.integer(2), .turns = row.integer(3)};
}

std::vector<Store::ProblemFigures> Store::problems(int64_t limit) {
  std::lock_guard lock(reading_);
  std::vector<ProblemFigures> out;
  Statement rows = reader_.prepare(
      "SELECT id, trajectories, failed, correct, reward / max(1, trajectories - failed), speedup, last FROM problems "
      "WHERE trajectories > 0 ORDER BY last DESC, id LIMIT ?");
  rows.bind(1, limit);
  while (rows.step()) {
    out.push_back({.id = rows.text(0),
                   .trajectories = rows.integer(1),
                   .failed = rows.integer(2),
                   .correct = rows.integer(3),
                   .mean_reward = rows.number(4),
                   .best_speedup = rows.number(5),
                   .last = rows.number(6)});
  }
  return out;
}

std::vector<Store::Row> Store::rows(int64_t limit, const std::string& after, bool oldest_first) {
  struct Found {
    GroupSpec group;
    std::string reason, credit;
    int64_t sample;
    double created;
    StoredTrajectory stored;
  };
  std::vector<Found> found;
  {
    std::lock_guard lock(reading_);
    const Transaction moment(reader_);
    int64_t from = 0;
    if (!after.empty()) {
      Statement row = reader_.prepare("SELECT seq FROM trajectories WHERE id = ?");
      row.bind(1, after);
      if (!row.step()) fail(ErrorKind::kNotFound, "there is no trajectory {}", after);
      from = row.integer(0);
    }
    Statement rows = reader_.prepare(
        fmt::format("SELECT t.body, k.record, t.created, t.sample, g.reason, g.credit, {} FROM trajectories t "
                    "JOIN groups g ON g.id = t.group_id LEFT JOIN tokens k ON k.trajectory = t.seq "
                    "WHERE t.seq > ? ORDER BY t.seq {} LIMIT ?",
                    kGroupColumns, oldest_first ? "ASC" : "DESC"));
    rows.bind(1, from).bind(2, limit);
    while (rows.step()) {
      found.push_back({group_of(rows, 6),
                       rows.text(4),
                       rows.text(5),
                       rows.integer(3),
                       rows.number(2),
                       {rows.text(0), rows.bytes(1)}});
    }
  }
  std::vector<Row> out;
  for (const Found& row : found) {
    out.push_back({trajectory_of(row.stored, row.credit, static_cast<size_t>(row.sample)), row.group.id, row.reason,
                   row.created, row.group.options, row.group.problem_source});
  }
  return out;
}

std::string Store::group_text(const std::string& group_id) {
  StoredGroup group;
  std::string state, lease_id;
  int64_t samples = 0;
  {
    std::lock_guard lock(reading_);
    const Transaction moment(reader_);
    group = stored_group(reader_, group_id);
    Statement row = reader_.prepare("SELECT state, lease_id, n_samples FROM groups WHERE id = ?");
    row.bind(1, group_id).step();
    state = row.text(0);
    lease_id = row.text(1);
    samples = row.integer(2);
  }
  return fmt::format(
      "{{\"group_id\":{},\"problem_id\":{},\"state\":{},\"reason\":{},\"lease_id\":{},\"n_samples\":{},"
      "\"trajectories\":{}}}",
      Json(group_id).dump(), Json(group.problem_id).dump(), Json(state).dump(), Json(group.reason).dump(),
      Json(lease_id).dump(), samples, text_of(group));
}

}  // namespace tritonforge::rollout
