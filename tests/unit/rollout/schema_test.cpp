// Files of earlier versions are gone on with: every row of theirs is there, and says the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/filesystem.h"
#include "mock_peers.h"
#include "rollout/store.h"

namespace tritonforge::rollout {
namespace {

using ::testing::ElementsAre;

// As version 3 wrote it.
constexpr char kVersion3[] = R"sql(
CREATE TABLE groups(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, problem_id TEXT NOT NULL,
  problem_source TEXT NOT NULL, n_samples INTEGER NOT NULL, seed INTEGER NOT NULL, options TEXT NOT NULL,
  messages TEXT NOT NULL, legacy INTEGER NOT NULL, extra TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('running', 'complete', 'leased', 'committed')),
  reason TEXT NOT NULL DEFAULT '', lease_id TEXT NOT NULL DEFAULT '', created REAL NOT NULL);
CREATE INDEX groups_by_state ON groups(state, legacy, seq);
CREATE TABLE trajectories(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, group_id TEXT NOT NULL REFERENCES groups(id),
  sample INTEGER NOT NULL, reward REAL NOT NULL, turns INTEGER NOT NULL, correct INTEGER NOT NULL,
  created REAL NOT NULL, body TEXT NOT NULL, failed INTEGER NOT NULL DEFAULT 0, UNIQUE(group_id, sample));
CREATE TABLE leases(
  id TEXT PRIMARY KEY, state TEXT NOT NULL CHECK(state IN ('leased', 'committed', 'released')), group_ids TEXT NOT NULL,
  created REAL NOT NULL);
CREATE TABLE commits(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, lease_id TEXT NOT NULL UNIQUE REFERENCES leases(id), step INTEGER NOT NULL,
  created REAL NOT NULL);
CREATE TABLE items(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, uid TEXT NOT NULL UNIQUE, instance_id TEXT NOT NULL, reward REAL NOT NULL,
  created REAL NOT NULL, lease_id TEXT NOT NULL DEFAULT '', body TEXT NOT NULL);
CREATE INDEX items_by_lease ON items(lease_id, instance_id, seq);
CREATE TABLE settings(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE turns(
  group_id TEXT NOT NULL REFERENCES groups(id), sample INTEGER NOT NULL, turn INTEGER NOT NULL,
  judged INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY(group_id, sample, turn));
)sql";

Trajectory old_trajectory(const std::string& group, int64_t sample, double reward, bool complete) {
  Trajectory t;
  t.id = trajectory_id(group, sample);
  t.group_id = group;
  t.problem_id = "p";
  Turn& turn = t.turns.emplace_back();
  turn.prompt_tokens = {1, 2};
  turn.response_tokens = {3, 4, 5};
  turn.log_probs = {-0.5f, -0.1f, -2.0f};
  turn.weight_versions = {1, 1, 2};
  turn.status = TurnStatus::kCompleted;
  turn.reward = reward;
  turn.text = "said";
  credit_trajectory(t, RolloutOptions{});
  if (complete) t.advantages = {reward > 0.5 ? 1.0 : -1.0};
  if (complete) t.carries_loss = {true};
  return t;
}

void write_group(Database& database, const std::string& id, const std::string& state, const std::string& lease,
                 bool legacy) {
  const GroupSpec group = group_spec(id);
  database
      .prepare(
          "INSERT INTO groups(id, problem_id, problem_source, n_samples, seed, options, messages, legacy, extra, "
          "state, "
          "lease_id, created) VALUES(?, 'p', 'class Model: pass', 2, 7, ?, '[]', ?, 'null', ?, ?, 1.5)")
      .bind(1, id)
      .bind(2, to_json(group.options).dump())
      .bind(3, int64_t{legacy})
      .bind(4, state)
      .bind(5, lease)
      .run();
}

void write_old(Database& database, const Trajectory& trajectory, int64_t sample, bool failed) {
  database
      .prepare(
          "INSERT INTO trajectories(id, group_id, sample, reward, turns, correct, created, body, failed) "
          "VALUES(?, ?, ?, ?, 1, 0, 2.5, ?, ?)")
      .bind(1, trajectory.id)
      .bind(2, trajectory.group_id)
      .bind(3, sample)
      .bind(4, trajectory.reward)
      .bind(5, to_json(trajectory).dump())
      .bind(6, int64_t{failed})
      .run();
}

// Groups a (leased as l), b (one of two samples), c (legacy, read) with a trajectory that a failure of ours ended.
void write_version_3(const fs::path& path) {
  Database database(path);
  database.execute(kVersion3);
  write_group(database, "a", "leased", "l", false);
  write_group(database, "b", "running", "", false);
  write_group(database, "c", "leased", "read-1", true);
  write_old(database, old_trajectory("a", 1, 0.8, true), 1, false);
  write_old(database, old_trajectory("a", 0, 0.3, true), 0, false);
  write_old(database, old_trajectory("b", 1, 0.6, false), 1, false);
  Trajectory failed = old_trajectory("c", 0, 0, true);
  failed.turns[0].status = TurnStatus::kFailed;
  write_old(database, failed, 0, true);
  write_old(database, old_trajectory("c", 1, 0.5, true), 1, false);
  database.execute(R"sql(
INSERT INTO leases VALUES('l', 'leased', '["a"]', 3), ('read-1', 'leased', '["c"]', 3), ('old', 'committed', '[]', 1);
INSERT INTO commits(lease_id, step, created) VALUES('old', 4, 1);
INSERT INTO items(uid, instance_id, reward, created, lease_id, body) VALUES('u', 'i', 1, 1, '', '{}'),
  ('v', 'i', 1, 1, 'read-1', '{}');
INSERT INTO settings VALUES('reads', '1');
PRAGMA user_version=3)sql");
}

TEST(Schema, AFileOfAnEarlierVersionIsGoneOnWith) {
  for (const char* older : {"", "DROP TABLE turns; PRAGMA user_version=2",
                            "DROP TABLE turns; ALTER TABLE trajectories DROP COLUMN failed; PRAGMA user_version=1"}) {
    SCOPED_TRACE(older);
    TemporaryFolder folder("tf-schema");
    const fs::path path = folder.path() / "b.sqlite";
    write_version_3(path);
    Database(path).execute(older);
    for (int open = 0; open < 2; ++open) {  // the second finds it done
      Store store(path);
      const auto counts = store.counts();
      EXPECT_EQ(counts.trajectories, 5);
      EXPECT_EQ(counts.stored, 5);
      EXPECT_EQ(counts.failed, 1);
      EXPECT_EQ(counts.commits, 1);
      EXPECT_EQ(counts.leases, 2);
      EXPECT_EQ(counts.groups.at("leased"), 2);
      EXPECT_EQ(counts.groups.at("running"), 1);
      EXPECT_NEAR(counts.mean_reward, (0.3 + 0.8 + 0.6 + 0.5) / 4, 1e-12);
      EXPECT_EQ(store.legacy_counts().written, 4);
      EXPECT_EQ(store.legacy_counts().read, 3);
      EXPECT_EQ(store.setting("reads", ""), "1");
      const auto trajectories = trajectories_of(store.leased("l").groups.at(0));
      ASSERT_EQ(trajectories.size(), 2u);
      EXPECT_EQ(to_json(trajectories[0]), to_json(old_trajectory("a", 0, 0.3, true)));
      EXPECT_EQ(to_json(trajectories[1]), to_json(old_trajectory("a", 1, 0.8, true)));
      const auto unfinished = store.unfinished();
      ASSERT_EQ(unfinished.size(), 1u);
      EXPECT_THAT(unfinished[0].missing, ElementsAre(0));
    }
    Store store(path);
    EXPECT_TRUE(store.write_trajectory(old_trajectory("b", 0, 0.1, false), 0));
    EXPECT_TRUE(store.lease({.lease_id = "m", .group_ids = {"b"}}).lease);
    EXPECT_EQ(store.take_legacy({}), "read-2");
  }
}

// Programs that know this version read it with them and without.
TEST(Schema, AFileOfThisVersionGetsTheIndexesThatItHasNot) {
  TemporaryFolder folder("tf-schema");
  const fs::path path = folder.path() / "b.sqlite";
  const auto indexes = [&] {
    Database reader = Database::reader_of(path);
    Statement row = reader.prepare(
        "SELECT (SELECT count(*) FROM sqlite_master WHERE name IN ('turns_by_verdict', 'problems_by_time')), "
        "user_version FROM pragma_user_version");
    row.step();
    return std::pair(row.integer(0), row.integer(1));
  };
  { const Store store(path); }
  const auto fresh = indexes();
  EXPECT_EQ(fresh.first, 2);
  Database(path).execute("DROP INDEX turns_by_verdict; DROP INDEX problems_by_time");
  EXPECT_EQ(indexes().first, 0);
  { const Store store(path); }
  EXPECT_EQ(indexes(), fresh);
}

}  // namespace
}  // namespace tritonforge::rollout
