// The part of the store that hands groups out, takes their commits, and forgets what was trained on.
#include <algorithm>
#include <set>

#include "base/clock.h"
#include "rollout/store.h"

namespace tritonforge::rollout {
namespace {

std::vector<std::string> ids_from_text(const std::string& text) {
  return parse_json(text, "stored lease").get<std::vector<std::string>>();
}

// What a lease replayed does not count where it ends untrained; one that was released has given it back.
constexpr const char* kTakeBackReplays =
    "UPDATE groups SET replays = replays - 1 WHERE id IN (SELECT r.value FROM leases l, json_each(l.replayed) r WHERE "
    "l.id = ? AND l.state != 'released')";

// What ORDER BY says of contract/lease.h's LeaseOrder.
std::string_view ordering(LeaseOrder order) {
  switch (order) {
    case LeaseOrder::kAge: return "seq";
    case LeaseOrder::kNewest: return "seq DESC";
    case LeaseOrder::kVariance: return "reward_variance DESC, seq";
    case LeaseOrder::kPassRate: return "pass_rate * (1 - pass_rate) DESC, seq";
  }
  TF_CHECK(false, "an order without a name");
  return {};
}

std::string state_of(Database& database, const std::string& lease_id) {
  Statement row = database.prepare("SELECT state FROM leases WHERE id = ?");
  row.bind(1, lease_id);
  if (!row.step()) fail(ErrorKind::kNotFound, "there is no lease {}", lease_id);
  return row.text(0);
}

}  // namespace

StoredLease Store::read_lease(const std::string& lease_id, const Grant& granted) {
  std::lock_guard lock(reading_);
  const Transaction moment(reader_);
  StoredLease lease{lease_id, {}};
  try {
    for (const std::string& id : granted.group_ids) lease.groups.push_back(stored_group(reader_, id));
    for (const std::string& id : granted.replayed) {
      lease.groups.push_back(stored_group(reader_, id));
      lease.groups.back().replayed = true;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    fail(ErrorKind::kNotFound, "lease {}: {} any more: it was discarded, or is older than keep_trajectories", lease_id,
         error.what());
  }
  return lease;
}

Store::LeaseAnswer Store::lease(const LeaseRequest& request) {
  if (request.lease_id.empty()) fail(ErrorKind::kUsage, "lease: 'lease_id' is empty");
  if (request.group_ids.empty() && request.count < 1)
    fail(ErrorKind::kUsage, "lease {}: 'count' must be at least 1, not {}", request.lease_id, request.count);
  if (request.replay.groups > 0 && request.replay.leases > retention_.steps) {
    fail(ErrorKind::kUsage, "lease {}: replay of {} leases, but tokens stay for {} (keep_steps)", request.lease_id,
         request.replay.leases, retention_.steps);
  }
  Grant granted;
  {
    // A lease that waits is asked for again with every group that ends: that holds up nobody who writes.
    std::lock_guard lock(reading_);
    const Transaction moment(reader_);
    granted = find(reader_, request);
  }
  if (granted.missing.empty() && !granted.known) commits_.run([&] { granted = grant(request); });
  if (!granted.missing.empty()) return {std::nullopt, granted.missing};
  return {read_lease(request.lease_id, granted), ""};
}

// What the lease holds already, or could be given now.
Store::Grant Store::find(Database& database, const LeaseRequest& request) {
  Statement row = database.prepare("SELECT state, group_ids, replayed FROM leases WHERE id = ?");
  row.bind(1, request.lease_id);
  if (row.step() && row.text(0) != "released") {
    Grant known{.group_ids = ids_from_text(row.text(1)), .replayed = ids_from_text(row.text(2)), .known = true};
    if (!request.group_ids.empty() && request.group_ids != known.group_ids)
      fail(ErrorKind::kConflict, "lease {} holds other groups than those that are asked for", request.lease_id);
    return known;
  }
  if (request.group_ids.empty()) return any_groups(database, request);
  return {.group_ids = request.group_ids, .missing = not_there(database, request)};
}

Store::Grant Store::grant(const LeaseRequest& request) {
  Grant granted = find(database_, request);
  if (granted.known || !granted.missing.empty()) return granted;
  granted.replayed = replayable(request);
  database_
      .prepare("INSERT OR REPLACE INTO leases(id, state, created, group_ids, replayed) VALUES(?, 'leased', ?, ?, ?)")
      .bind(1, request.lease_id)
      .bind(2, unix_seconds())
      .bind(3, Json(granted.group_ids).dump())
      .bind(4, Json(granted.replayed).dump())
      .run();
  for (const std::string& id : granted.group_ids) {
    database_.prepare("UPDATE groups SET state = 'leased', lease_id = ? WHERE id = ?")
        .bind(1, request.lease_id)
        .bind(2, id)
        .run();
  }
  for (const std::string& id : granted.replayed)
    database_.prepare("UPDATE groups SET replays = replays + 1 WHERE id = ?").bind(1, id).run();
  return granted;
}

Store::Grant Store::any_groups(Database& database, const LeaseRequest& request) {
  Grant any;
  std::vector<std::string> running;
  for (const std::string& id : request.at_least) {
    Statement row = database.prepare("SELECT state FROM groups WHERE id = ?");
    row.bind(1, id);
    if (!row.step()) fail(ErrorKind::kNotFound, "lease {}: there is no group {}", request.lease_id, id);
    if (row.text(0) == "running") running.push_back(id);
    if (row.text(0) == "complete") any.group_ids.push_back(id);
  }
  if (static_cast<int64_t>(any.group_ids.size() + running.size()) > request.count) {
    fail(ErrorKind::kUsage, "lease {}: {} groups of 'at_least' are without a lease, 'count' is {}", request.lease_id,
         any.group_ids.size() + running.size(), request.count);
  }
  if (!running.empty()) {
    any.missing = fmt::format("{} of those that must be there run (first: {})", running.size(), running[0]);
    return any;
  }
  const std::set<std::string> taken(any.group_ids.begin(), any.group_ids.end());
  Statement rows = database.prepare(fmt::format(
      "SELECT id FROM groups WHERE state = 'complete' AND legacy = 0 AND substr(id, 1, length(?1)) = ?1 ORDER BY {} "
      "LIMIT ?2",
      ordering(request.order)));
  rows.bind(1, request.of).bind(2, request.count + static_cast<int64_t>(taken.size()));
  while (static_cast<int64_t>(any.group_ids.size()) < request.count && rows.step())
    if (!taken.contains(rows.text(0))) any.group_ids.push_back(rows.text(0));
  const size_t there = any.group_ids.size();
  if (static_cast<int64_t>(there) < request.count) {
    Statement others = database.prepare("SELECT count(*) FROM groups WHERE state = 'running' AND legacy = 0");
    others.step();
    any.missing = fmt::format("{} of {} groups complete, {} running", there, request.count, others.integer(0));
  }
  return any;
}

std::string Store::not_there(Database& database, const LeaseRequest& request) {
  std::set<std::string> named;
  for (const std::string& id : request.group_ids) {
    if (!named.insert(id).second) fail(ErrorKind::kUsage, "lease {}: group {} is named twice", request.lease_id, id);
  }
  std::vector<std::string> running;
  Statement others = database.prepare(
      "SELECT r.value, g.state, g.lease_id FROM json_each(?) r LEFT JOIN groups g ON g.id = r.value WHERE g.state IS "
      "NOT 'complete' ORDER BY r.key");
  others.bind(1, Json(request.group_ids).dump());
  while (others.step()) {
    const std::string id = others.text(0);
    if (others.is_null(1)) fail(ErrorKind::kNotFound, "lease {}: there is no group {}", request.lease_id, id);
    if (others.text(1) == "running") {
      running.push_back(id);
      continue;
    }
    fail(ErrorKind::kConflict, "lease {}: group {} is {} with lease {}", request.lease_id, id, others.text(1),
         others.text(2));
  }
  if (running.empty()) return "";
  const size_t count = request.group_ids.size();
  return fmt::format("{} of {} groups complete, {} running (first: {})", count - running.size(), count, running.size(),
                     running[0]);
}

std::vector<std::string> Store::replayable(const LeaseRequest& request) {
  std::vector<std::string> ids;
  if (request.replay.groups == 0) return ids;
  Statement rows = database_.prepare(fmt::format(
      "SELECT id FROM groups WHERE state IN ('leased', 'committed') AND reason = '' AND lease_id IN (SELECT id FROM "
      "leases WHERE id != ?1 AND state != 'released' AND substr(id, 1, length(?2)) = ?2 ORDER BY rowid DESC LIMIT ?3)"
      " AND NOT EXISTS (SELECT 1 FROM trajectories t WHERE t.group_id = groups.id AND NOT EXISTS (SELECT 1 FROM tokens "
      "WHERE trajectory = t.seq)) ORDER BY replays, {} LIMIT ?4",
      ordering(request.replay.order)));
  rows.bind(1, request.lease_id).bind(2, request.replay.of).bind(3, request.replay.leases);
  rows.bind(4, request.replay.groups);
  while (rows.step()) ids.push_back(rows.text(0));
  return ids;
}

StoredLease Store::leased(const std::string& lease_id) {
  Grant granted;
  {
    std::lock_guard lock(reading_);
    Statement row = reader_.prepare("SELECT state, group_ids, replayed FROM leases WHERE id = ?");
    row.bind(1, lease_id);
    if (!row.step()) fail(ErrorKind::kNotFound, "there is no lease {}", lease_id);
    if (row.text(0) != "leased") fail(ErrorKind::kConflict, "lease {} is {}", lease_id, row.text(0));
    granted = {ids_from_text(row.text(1)), ids_from_text(row.text(2)), ""};
  }
  return read_lease(lease_id, granted);
}

void Store::commit_lease(const std::string& lease_id, int64_t step) {
  commits_.run([&] { commit(lease_id, step); });
}

void Store::commit(const std::string& lease_id, int64_t step) {
  const std::string state = state_of(database_, lease_id);
  if (state == "committed") return;
  if (state != "leased") fail(ErrorKind::kConflict, "lease {} is {}: it cannot be committed", lease_id, state);
  database_.prepare("UPDATE leases SET state = 'committed' WHERE id = ?").bind(1, lease_id).run();
  database_.prepare("UPDATE groups SET state = 'committed' WHERE lease_id = ?").bind(1, lease_id).run();
  database_.prepare("INSERT INTO commits(lease_id, step, created) VALUES(?, ?, ?)")
      .bind(1, lease_id)
      .bind(2, step)
      .bind(3, unix_seconds())
      .run();
  forget_old();
}

void Store::release_lease(const std::string& lease_id) {
  commits_.run([&] {
    const std::string state = state_of(database_, lease_id);
    if (state == "released") return;
    if (state != "leased") fail(ErrorKind::kConflict, "lease {} is {}: it cannot be released", lease_id, state);
    for (const char* sql : {kTakeBackReplays, "UPDATE leases SET state = 'released' WHERE id = ?",
                            "UPDATE groups SET state = 'complete', lease_id = '' WHERE lease_id = ?"})
      database_.prepare(sql).bind(1, lease_id).run();
  });
}

void Store::discard_lease(const std::string& lease_id) {
  commits_.run([&] {
    for (const char* sql :
         {"UPDATE groups SET state = 'complete' WHERE lease_id = ?",  // so that they leave the sums, too
          kTakeBackReplays, "DELETE FROM turns WHERE group_id IN (SELECT id FROM groups WHERE lease_id = ?)",
          "DELETE FROM tokens WHERE trajectory IN (SELECT t.seq FROM trajectories t JOIN groups g ON g.id = t.group_id "
          "WHERE g.lease_id = ?)",
          "DELETE FROM trajectories WHERE group_id IN (SELECT id FROM groups WHERE lease_id = ?)",
          "DELETE FROM groups WHERE lease_id = ?", "DELETE FROM commits WHERE lease_id = ?",
          "DELETE FROM leases WHERE id = ?"})
      database_.prepare(sql).bind(1, lease_id).run();
  });
}

// Commits are walked in their order, each once: `forgotten_tokens` and `forgotten_groups` are the last that were.
void Store::forget_old() {
  int64_t newest = 0;
  {
    Statement row = database_.prepare("SELECT coalesce(max(seq), 0) FROM commits");
    if (row.step()) newest = row.integer(0);
  }
  const auto next_commit = [&](int64_t after, int64_t& seq, std::string& lease_id) {
    Statement row = database_.prepare("SELECT seq, lease_id FROM commits WHERE seq > ? ORDER BY seq LIMIT 1");
    row.bind(1, after);
    if (!row.step()) return false;
    seq = row.integer(0);
    lease_id = row.text(1);
    return true;
  };
  int64_t seq = 0;
  std::string lease_id;
  while (next_commit(number("forgotten_tokens"), seq, lease_id) && seq <= newest - retention_.steps &&
         forget_tokens_of(lease_id))
    set_number("forgotten_tokens", seq);

  const auto stored = [&] {
    Statement row = database_.prepare("SELECT value FROM totals WHERE name = 'stored'");
    return row.step() ? row.integer(0) : 0;
  };
  while (retention_.trajectories > 0 && stored() > retention_.trajectories &&
         next_commit(number("forgotten_groups"), seq, lease_id) && seq <= number("forgotten_tokens")) {
    database_.prepare("DELETE FROM trajectories WHERE group_id IN (SELECT id FROM groups WHERE lease_id = ?)")
        .bind(1, lease_id)
        .run();
    database_.prepare("DELETE FROM groups WHERE lease_id = ?").bind(1, lease_id).run();
    set_number("forgotten_groups", seq);
  }
}

// False where an open lease replays one of its groups: then they stay, and what is younger waits with them.
bool Store::forget_tokens_of(const std::string& lease_id) {
  {
    Statement in_use = database_.prepare(
        "SELECT 1 FROM leases l, json_each(l.replayed) r JOIN groups g ON g.id = r.value "
        "WHERE l.state = 'leased' AND g.lease_id = ? LIMIT 1");
    in_use.bind(1, lease_id);
    if (in_use.step()) return false;
  }
  database_
      .prepare(
          "DELETE FROM tokens WHERE trajectory IN (SELECT t.seq FROM trajectories t JOIN groups g ON g.id = t.group_id "
          "WHERE g.lease_id = ?)")
      .bind(1, lease_id)
      .run();
  return true;
}

int64_t Store::number(const std::string& setting) {
  Statement row = database_.prepare("SELECT value FROM settings WHERE key = ?");
  row.bind(1, setting);
  return row.step() ? row.integer(0) : 0;
}

void Store::set_number(const std::string& setting, int64_t value) {
  database_.prepare("INSERT OR REPLACE INTO settings(key, value) VALUES(?, ?)").bind(1, setting).bind(2, value).run();
}

}  // namespace tritonforge::rollout
