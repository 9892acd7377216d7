#include "rollout/store_schema.h"

#include "contract/trajectory.h"
#include "rollout/stored_trajectory.h"

namespace tritonforge::rollout {
namespace {

constexpr int64_t kSchemaVersion = 4;

// The wide columns stand last in their rows: SQLite reads a row from its beginning. `trajectories.body` is the
// transcript, `tokens.record` the arrays (token_record.h), `groups.credit` what the complete group gave each of its
// samples: {"advantages": [[...], ...], "carries_loss": [[...], ...]}, in the order of the samples.
constexpr char kTables[] = R"sql(
CREATE TABLE groups(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, problem_id TEXT NOT NULL,
  n_samples INTEGER NOT NULL, seed INTEGER NOT NULL, legacy INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('running', 'complete', 'leased', 'committed')),
  reason TEXT NOT NULL DEFAULT '', lease_id TEXT NOT NULL DEFAULT '', created REAL NOT NULL,
  reward_variance REAL NOT NULL DEFAULT 0, pass_rate REAL NOT NULL DEFAULT 0, replays INTEGER NOT NULL DEFAULT 0,
  options TEXT NOT NULL, messages TEXT NOT NULL, extra TEXT NOT NULL, credit TEXT NOT NULL DEFAULT '{}',
  problem_source TEXT NOT NULL);
CREATE INDEX groups_by_state ON groups(state, legacy, seq);
CREATE INDEX groups_by_lease ON groups(lease_id);
CREATE TABLE trajectories(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, group_id TEXT NOT NULL REFERENCES groups(id),
  sample INTEGER NOT NULL, reward REAL NOT NULL, turns INTEGER NOT NULL, correct INTEGER NOT NULL,
  failed INTEGER NOT NULL, speedup REAL NOT NULL, created REAL NOT NULL, outline TEXT NOT NULL,
  body TEXT NOT NULL, UNIQUE(group_id, sample));
CREATE TABLE tokens(trajectory INTEGER PRIMARY KEY REFERENCES trajectories(seq), record BLOB NOT NULL);
CREATE TABLE turns(
  group_id TEXT NOT NULL REFERENCES groups(id), sample INTEGER NOT NULL, turn INTEGER NOT NULL,
  judged INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY(group_id, sample, turn));
CREATE TABLE leases(
  id TEXT PRIMARY KEY, state TEXT NOT NULL CHECK(state IN ('leased', 'committed', 'released')),
  created REAL NOT NULL, group_ids TEXT NOT NULL, replayed TEXT NOT NULL DEFAULT '[]');
CREATE INDEX leases_by_state ON leases(state);
CREATE TABLE commits(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, lease_id TEXT NOT NULL UNIQUE REFERENCES leases(id), step INTEGER NOT NULL,
  created REAL NOT NULL);
CREATE TABLE items(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE, instance_id TEXT NOT NULL, reward REAL NOT NULL,
  created REAL NOT NULL, lease_id TEXT NOT NULL DEFAULT '', body TEXT NOT NULL);
CREATE INDEX items_by_lease ON items(lease_id, instance_id, seq);
CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT NOT NULL);
)sql";

// Sums that /metrics, /v2/status and /v2/problems read without looking at a row. They are of all that was written and
// not discarded: what retention takes away (rows of committed groups) still counts, except in `stored`.
constexpr char kSums[] = R"sql(
CREATE TABLE totals(name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
INSERT INTO totals VALUES ('groups.running', 0), ('groups.complete', 0), ('groups.leased', 0), ('groups.committed', 0),
  ('trajectories', 0), ('stored', 0), ('turns', 0), ('correct', 0), ('failed', 0), ('reward', 0), ('commits', 0),
  ('items.written', 0), ('items.read', 0);
CREATE TABLE problems(
  id TEXT PRIMARY KEY, trajectories INTEGER NOT NULL, failed INTEGER NOT NULL, correct INTEGER NOT NULL,
  reward REAL NOT NULL, speedup REAL NOT NULL, last REAL NOT NULL) WITHOUT ROWID;

CREATE TRIGGER group_added AFTER INSERT ON groups BEGIN
  UPDATE totals SET value = value + 1 WHERE name = 'groups.' || new.state;
END;
CREATE TRIGGER group_changed AFTER UPDATE OF state ON groups WHEN old.state != new.state BEGIN
  UPDATE totals SET value = value - 1 WHERE name = 'groups.' || old.state;
  UPDATE totals SET value = value + 1 WHERE name = 'groups.' || new.state;
END;
CREATE TRIGGER group_removed AFTER DELETE ON groups WHEN old.state != 'committed' BEGIN
  UPDATE totals SET value = value - 1 WHERE name = 'groups.' || old.state;
END;
CREATE TRIGGER group_read AFTER UPDATE OF lease_id ON groups
  WHEN new.legacy AND (old.lease_id = '') != (new.lease_id = '') BEGIN
  UPDATE totals SET value = value + iif(new.lease_id = '', -1, 1) * (
    SELECT count(*) FROM trajectories WHERE group_id = new.id) WHERE name = 'items.read';
END;

CREATE TRIGGER trajectory_added AFTER INSERT ON trajectories BEGIN
  UPDATE totals SET value = value + CASE name WHEN 'trajectories' THEN 1 WHEN 'stored' THEN 1
    WHEN 'turns' THEN new.turns WHEN 'correct' THEN new.correct WHEN 'failed' THEN new.failed
    WHEN 'reward' THEN iif(new.failed, 0, new.reward) ELSE (SELECT legacy FROM groups WHERE id = new.group_id) END
    WHERE name IN ('trajectories', 'stored', 'turns', 'correct', 'failed', 'reward', 'items.written');
  INSERT INTO problems SELECT problem_id, 1, new.failed, new.correct, iif(new.failed, 0, new.reward), new.speedup,
      new.created FROM groups WHERE id = new.group_id
    ON CONFLICT(id) DO UPDATE SET trajectories = trajectories + 1, failed = failed + excluded.failed,
      correct = correct + excluded.correct, reward = reward + excluded.reward,
      speedup = max(speedup, excluded.speedup), last = excluded.last;
END;
CREATE TRIGGER trajectory_gone AFTER DELETE ON trajectories BEGIN
  UPDATE totals SET value = value - 1 WHERE name = 'stored';
END;
CREATE TRIGGER trajectory_removed AFTER DELETE ON trajectories
  WHEN (SELECT state FROM groups WHERE id = old.group_id) != 'committed' BEGIN
  UPDATE totals SET value = value - CASE name WHEN 'trajectories' THEN 1 WHEN 'turns' THEN old.turns
    WHEN 'correct' THEN old.correct WHEN 'failed' THEN old.failed WHEN 'reward' THEN iif(old.failed, 0, old.reward)
    WHEN 'items.written' THEN (SELECT legacy FROM groups WHERE id = old.group_id)
    ELSE (SELECT legacy AND lease_id != '' FROM groups WHERE id = old.group_id) END
    WHERE name IN ('trajectories', 'turns', 'correct', 'failed', 'reward', 'items.written', 'items.read');
  UPDATE problems SET trajectories = trajectories - 1, failed = failed - old.failed, correct = correct - old.correct,
    reward = reward - iif(old.failed, 0, old.reward)
    WHERE id = (SELECT problem_id FROM groups WHERE id = old.group_id);
END;

CREATE TRIGGER commit_added AFTER INSERT ON commits BEGIN
  UPDATE totals SET value = value + 1 WHERE name = 'commits';
END;
CREATE TRIGGER commit_removed AFTER DELETE ON commits BEGIN
  UPDATE totals SET value = value - 1 WHERE name = 'commits';
END;

CREATE TRIGGER item_added AFTER INSERT ON items BEGIN
  UPDATE totals SET value = value + (name = 'items.written' OR new.lease_id != '')
    WHERE name IN ('items.written', 'items.read');
END;
CREATE TRIGGER item_read AFTER UPDATE OF lease_id ON items WHEN old.lease_id = '' AND new.lease_id != '' BEGIN
  UPDATE totals SET value = value + 1 WHERE name = 'items.read';
END;
)sql";

// What they read where no sum is kept. Whoever reads this version of the file can do without them, so that a file that
// has none gets them and stays of its version.
constexpr char kIndexes[] = R"sql(
CREATE INDEX IF NOT EXISTS turns_by_verdict ON turns(judged, group_id);
CREATE INDEX IF NOT EXISTS problems_by_time ON problems(last DESC, id) WHERE trajectories > 0;
)sql";

// Version 1 did not say which trajectories a failure of ours ended, 2 kept no turns.
constexpr char kFromVersion1[] = R"sql(
ALTER TABLE trajectories ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
UPDATE trajectories SET failed = coalesce(json_extract(body, '$.turns[#-1].status') = 'failed', 0);
)sql";
constexpr char kTurnsOfVersion3[] = R"sql(
CREATE TABLE turns(
  group_id TEXT NOT NULL REFERENCES groups(id), sample INTEGER NOT NULL, turn INTEGER NOT NULL,
  judged INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY(group_id, sample, turn));
)sql";

// Version 3 had a trajectory with its tokens and its advantages as one JSON text.
constexpr char kSetAside[] = R"sql(
DROP INDEX groups_by_state;
DROP INDEX items_by_lease;
ALTER TABLE turns RENAME TO turns_3;
ALTER TABLE trajectories RENAME TO trajectories_3;
ALTER TABLE commits RENAME TO commits_3;
ALTER TABLE leases RENAME TO leases_3;
ALTER TABLE items RENAME TO items_3;
ALTER TABLE settings RENAME TO settings_3;
ALTER TABLE groups RENAME TO groups_3;
)sql";
constexpr char kMove[] = R"sql(
INSERT INTO groups(seq, id, problem_id, n_samples, seed, legacy, state, reason, lease_id, created, options, messages,
    extra, problem_source)
  SELECT seq, id, problem_id, n_samples, seed, legacy, state, reason, lease_id, created, options, messages, extra,
    problem_source FROM groups_3;
INSERT INTO leases(id, state, created, group_ids) SELECT id, state, created, group_ids FROM leases_3;
INSERT INTO commits SELECT seq, lease_id, step, created FROM commits_3;
INSERT INTO items(seq, uid, instance_id, reward, created, lease_id, body)
  SELECT seq, uid, instance_id, reward, created, lease_id, body FROM items_3;
INSERT INTO settings SELECT key, value FROM settings_3;
INSERT INTO turns SELECT group_id, sample, turn, judged, body FROM turns_3;
)sql";
constexpr char kDrop[] = R"sql(
UPDATE totals SET value = (SELECT count(*) FROM trajectories t JOIN groups g ON g.id = t.group_id
  WHERE g.legacy AND g.lease_id != '') + (SELECT count(*) FROM items WHERE lease_id != '') WHERE name = 'items.read';
DROP TABLE turns_3;
DROP TABLE trajectories_3;
DROP TABLE commits_3;
DROP TABLE leases_3;
DROP TABLE items_3;
DROP TABLE settings_3;
DROP TABLE groups_3;
)sql";

void move_trajectories(Database& database) {
  Statement rows = database.prepare(
      "SELECT seq, sample, created, group_id, body FROM trajectories_3 ORDER BY group_id, sample");
  std::string group_id;
  std::vector<Trajectory> group;
  const auto finish_group = [&] {
    if (const auto credit = credit_of(group); credit && !group.empty()) {
      database.prepare("UPDATE groups SET credit = ?, reward_variance = ?, pass_rate = ? WHERE id = ?")
          .bind(1, text_of(*credit))
          .bind(2, reward_variance(stored_outlines(database, group_id)))
          .bind(3, pass_rate(stored_outlines(database, group_id)))
          .bind(4, group_id)
          .run();
    }
    group.clear();
  };
  while (rows.step()) {
    if (rows.text(3) != group_id) finish_group();
    group_id = rows.text(3);
    Trajectory trajectory = trajectory_from_json(parse_json(rows.text(4), "stored trajectory"));
    insert(database, TrajectoryRow(trajectory), rows.integer(1), rows.number(2), rows.integer(0));
    group.push_back(std::move(trajectory));
  }
  finish_group();
}

int64_t read_integer(Database& database, const char* sql) {
  Statement statement = database.prepare(sql);
  return statement.step() ? statement.integer(0) : 0;
}

}  // namespace

void prepare_schema(Database& database) {
  const int64_t version = read_integer(database, "PRAGMA user_version");
  if (version == kSchemaVersion) {
    database.execute(kIndexes);
    return;
  }
  const bool empty = read_integer(database, "SELECT count(*) FROM sqlite_master") == 0;
  if (version < 0 || version > kSchemaVersion || (version == 0 && !empty)) {
    fail(ErrorKind::kUnsupported,
         "database {}: schema version {}, this program reads {}; use another --db file or the program that wrote it",
         database.path().string(), version, kSchemaVersion);
  }
  Transaction transaction(database);
  if (version == 1) database.execute(kFromVersion1);
  if (version == 1 || version == 2) database.execute(kTurnsOfVersion3);
  if (version > 0) database.execute(kSetAside);
  database.execute(kTables);
  database.execute(kSums);
  if (version > 0) {
    database.execute(kMove);
    move_trajectories(database);
    database.execute(kDrop);
  }
  database.execute(kIndexes);
  database.execute(fmt::format("PRAGMA user_version={}", kSchemaVersion));
  transaction.commit();
}

void check_schema(Database& database) {
  const int64_t version = read_integer(database, "PRAGMA user_version");
  if (version == kSchemaVersion) return;
  fail(ErrorKind::kUnsupported,
       "database {}: schema version {}, this program reads {}; `tritonforge serve buffer --db` moves an older one",
       database.path().string(), version, kSchemaVersion);
}

}  // namespace tritonforge::rollout
