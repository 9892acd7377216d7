#include "rollout/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include "base/filesystem.h"
#include "mock_peers.h"
#include "rollout/generator.h"
#include "rollout/past_trajectories.h"

namespace tritonforge::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Trajectory trajectory(const std::string& group, int64_t sample, double reward, size_t tokens = 4) {
  Trajectory t;
  t.id = trajectory_id(group, sample);
  t.group_id = group;
  t.problem_id = "p";
  Turn& turn = t.turns.emplace_back();
  turn.prompt_tokens = {1};
  turn.response_tokens.assign(tokens, 2);
  turn.log_probs.assign(tokens, -0.5f);
  turn.weight_versions.assign(tokens, 1);
  turn.status = TurnStatus::kCompleted;
  turn.reward = reward;
  credit_trajectory(t, RolloutOptions{});
  return t;
}

TEST(StoreTest, CompletesAGroupWithAdvantagesAndIgnoresRepeats) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  EXPECT_THAT(store.add_groups({group_spec("a"), group_spec("b")}).accepted, ElementsAre("a", "b"));
  EXPECT_FALSE(store.write_trajectory(trajectory("a", 1, 0.8), 1));
  EXPECT_FALSE(store.write_trajectory(trajectory("a", 1, 0.1), 1));
  auto unfinished = store.unfinished();
  EXPECT_THAT(unfinished[0].missing, ElementsAre(0));
  EXPECT_THAT(unfinished[1].missing, ElementsAre(0, 1));
  EXPECT_EQ(unfinished[0].group.seed, 7u);
  EXPECT_EQ(unfinished[0].group.options.prompt, PromptStyle::kMinimal);
  EXPECT_TRUE(store.write_trajectory(trajectory("a", 0, 0.3), 0));
  const auto answer = store.lease({"l", 1, {}});
  ASSERT_TRUE(answer.lease);
  const Json json = Json::parse(text_of(*answer.lease));
  EXPECT_NEAR(json["groups"][0]["trajectories"][0]["advantages"][0].get<double>(), -1, 1e-4);
  EXPECT_NEAR(json["groups"][0]["trajectories"][1]["advantages"][0].get<double>(), 1, 1e-4);
  EXPECT_DOUBLE_EQ(json["groups"][0]["trajectories"][1]["reward"], 0.8);  // the first write counts
  EXPECT_FALSE(store.lease({"m", 1, {}}).lease);
}

TEST(StoreTest, PastTrajectoriesAreThoseOfRlThatDidNotFail) {
  TemporaryFolder folder("tf-store");
  {
    Store store(folder.path() / "buffer.sqlite");
    store.add_groups({group_spec("a"), group_spec("bench-sft-p"), group_spec("validation-1-0")});
    for (const char* group : {"a", "bench-sft-p", "validation-1-0"}) {
      Trajectory said = trajectory(group, 0, 0.5);
      said.turns[0].text = std::string("text of ") + group;
      store.write_trajectory(said, 0);
    }
    Trajectory failed = trajectory("a", 1, 0);
    failed.turns[0].status = TurnStatus::kFailed;
    store.write_trajectory(failed, 1);
  }
  const auto past = open_past_trajectories(folder.path());
  const auto first = past->next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->turns.at(0).text, "text of a");
  EXPECT_FALSE(first->opening.empty());
  EXPECT_FALSE(past->next());
  EXPECT_THROW(open_past_trajectories(folder.path() / "none"), Error);
}

TEST(StoreTest, PastTrajectoriesAreReadWhileTheBufferHasTheFile) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "buffer.sqlite");
  store.add_groups({group_spec("a")});
  const auto past = open_past_trajectories(folder.path());
  EXPECT_FALSE(past->next());
  store.write_trajectory(trajectory("a", 0, 0.5), 0);
  EXPECT_TRUE(open_past_trajectories(folder.path())->next());
  Database(folder.path() / "other.sqlite").execute("PRAGMA user_version=99");
  EXPECT_THROW(open_past_trajectories(folder.path() / "other.sqlite"), Error);
}

TEST(StoreTest, TurnsAreKeptUntilTheirTrajectoryIsWritten) {
  TemporaryFolder folder("tf-store");
  Trajectory whole = trajectory("a", 1, 0.5);
  whole.turns.push_back(whole.turns[0]);
  whole.turns[1].text = "second";
  {
    Store store(folder.path() / "b.sqlite");
    store.add_groups({group_spec("a")});
    store.keep_turn("a", 1, 0, {whole.turns[0], false});
    store.keep_turn("a", 1, 0, {whole.turns[0], true});
    store.keep_turn("a", 1, 1, {whole.turns[1], false});
    store.keep_turn("a", 0, 0, {whole.turns[0], true});
  }
  Store store(folder.path() / "b.sqlite");
  const auto kept = store.kept_turns("a", 1);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_TRUE(kept[0].judged);
  EXPECT_FALSE(kept[1].judged);
  EXPECT_EQ(to_json(kept[1].turn), to_json(whole.turns[1]));
  EXPECT_EQ(store.progress("a").turns, 2);  // with a verdict
  EXPECT_EQ(store.progress("a").trajectories, 0);
  credit_trajectory(whole, RolloutOptions{});
  store.write_trajectory(whole, 1);
  EXPECT_TRUE(store.kept_turns("a", 1).empty());
  EXPECT_EQ(store.kept_turns("a", 0).size(), 1u);
  EXPECT_EQ(store.progress("a").turns, 3);
  EXPECT_EQ(store.progress("a").trajectories, 1);
  EXPECT_EQ(store.progress("b").turns, 0);
}

// A request that a generator repeated, or that was long under way: the verdict is there already.
TEST(StoreTest, AJudgedTurnStaysWhatItIs) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  store.add_groups({group_spec("a")});
  Turn turn = trajectory("a", 1, 0.5).turns[0], late = turn;
  late.text = "late";
  store.keep_turn("a", 1, 0, {late, false});
  store.keep_turn("a", 1, 0, {turn, true});
  for (const bool judged : {false, true}) store.keep_turn("a", 1, 0, {late, judged});
  const auto kept = store.kept_turns("a", 1);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_TRUE(kept[0].judged);
  EXPECT_EQ(to_json(kept[0].turn), to_json(turn));
}

// A disk that was full for a moment took the second turn and not the first: it is not to be taken for that.
TEST(StoreTest, TurnsBehindOneThatCouldNotBeKeptAreNotGiven) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  store.add_groups({group_spec("a")});
  const Turn turn = trajectory("a", 1, 0.5).turns[0];
  store.keep_turn("a", 1, 1, {turn, true});
  EXPECT_TRUE(store.kept_turns("a", 1).empty());
  store.keep_turn("a", 1, 0, {turn, true});
  EXPECT_EQ(store.kept_turns("a", 1).size(), 2u);
}

// A lease of a step may be hundreds of megabytes: whoever writes a sample meanwhile must not wait for it, nor it for
// them.
TEST(StoreTest, ReadingWaitsForNoWrite) {
  TemporaryFolder folder("tf-store");
  const fs::path path = folder.path() / "b.sqlite";
  Store store(path);
  store.add_groups({group_spec("a"), group_spec("b")});
  store.write_trajectory(trajectory("a", 0, 0.3), 0);
  store.write_trajectory(trajectory("a", 1, 0.8), 1);
  ASSERT_TRUE(store.lease({"l", 1, {}}).lease);
  sqlite3* other = nullptr;  // holds every write up
  ASSERT_EQ(sqlite3_open(path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  std::atomic<bool> begun{false};
  auto writing = std::async(std::launch::async, [&] {
    begun = true;
    return store.write_trajectory(trajectory("b", 0, 0.5), 0);
  });
  while (!begun) std::this_thread::yield();
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(store.leased("l").groups.at(0).rows.size(), 2u);
    EXPECT_EQ(store.counts().trajectories, 2);
    EXPECT_EQ(store.rows(8, "").size(), 2u);
    EXPECT_THAT(store.group_text("a"), HasSubstr("leased"));
    // A lease that waits is looked for with every group that ends; one that was given is asked for again.
    EXPECT_THAT(store.lease({"m", 1, {"b"}}).missing, HasSubstr("1 running"));
    EXPECT_EQ(store.lease({"l", 1, {}}).lease->groups.at(0).rows.size(), 2u);
  }
  EXPECT_EQ(writing.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  EXPECT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_FALSE(writing.get());
  EXPECT_EQ(store.counts().trajectories, 3);
  sqlite3_close(other);
}

TEST(StoreTest, AReadingThatTakesNothingHasNoNumber) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  EXPECT_EQ(store.take_legacy({}), "read-1");
  store.add_groups({group_spec("a")});
  store.write_trajectory(trajectory("a", 0, 0.3), 0);
  store.write_trajectory(trajectory("a", 1, 0.8), 1);
  ASSERT_TRUE(store.lease({"read-2", 1, {}}).lease);  // somebody else has the name
  EXPECT_THROW(store.take_legacy({}), Error);
  EXPECT_EQ(store.setting("reads", "0"), "1");
}

TEST(StoreTest, WhatAFailureOfOursEndedIsInNoMean) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  store.add_groups({group_spec("a")});
  store.write_trajectory(trajectory("a", 0, 0.75), 0);
  Trajectory failed = trajectory("a", 1, 0);
  failed.turns.back().status = TurnStatus::kFailed;
  store.write_trajectory(failed, 1);
  const auto counts = store.counts();
  EXPECT_EQ(counts.trajectories, 2);
  EXPECT_EQ(counts.failed, 1);
  EXPECT_DOUBLE_EQ(counts.mean_reward, 0.75);
  EXPECT_DOUBLE_EQ(counts.recent_mean_reward, 0.75);
}

TEST(StoreTest, ATurnThatWasCutCarriesNoLossWhereThatIsAskedFor) {
  for (const Overlong overlong : {Overlong::kKeep, Overlong::kMask}) {
    TemporaryFolder folder("tf-store");
    Store store(folder.path() / "b.sqlite");
    auto group = group_spec("a");
    group.options.overlong = overlong;
    store.add_groups({group});
    Trajectory cut = trajectory("a", 0, 0.3);
    cut.turns[0].status = TurnStatus::kTruncated;
    store.write_trajectory(cut, 0);
    store.write_trajectory(trajectory("a", 1, 0.8), 1);
    const auto answer = store.lease({"l", 1, {}});
    ASSERT_TRUE(answer.lease);
    EXPECT_EQ(batch_of(*answer.lease).sequences.size(), overlong == Overlong::kMask ? 1u : 2u);
  }
}

TEST(StoreTest, ASecondProcessIsKeptOut) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  try {
    Store second(folder.path() / "b.sqlite");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("another process"));
  }
}

TEST(StoreTest, AnotherSchemaOrAnotherFileIsRefusedByName) {
  TemporaryFolder folder("tf-store");
  {
    Database database(folder.path() / "b.sqlite");
    database.execute("PRAGMA user_version=9");
  }
  EXPECT_THROW(
      {
        try {
          Store store(folder.path() / "b.sqlite");
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
          EXPECT_THAT(error.what(), HasSubstr("version 9"));
          throw;
        }
      },
      Error);
  write_file_atomic(folder.path() / "text.sqlite", std::string(8192, 'x'));
  try {
    Store store(folder.path() / "text.sqlite");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  }
}

// Groups with rewards 0.5 - d and 0.5 + d, all complete.
void write_groups(Store& store, const std::vector<std::pair<std::string, double>>& groups) {
  for (const auto& [id, d] : groups) {
    store.add_groups({group_spec(id)});
    store.write_trajectory(trajectory(id, 0, 0.5 - d), 0);
    store.write_trajectory(trajectory(id, 1, 0.5 + d), 1);
  }
}

std::vector<std::string> ids_of(const Store::LeaseAnswer& answer, bool replayed) {
  if (!answer.lease) return {answer.missing};
  std::vector<std::string> ids;
  for (const StoredGroup& group : answer.lease->groups) {
    if (group.replayed == replayed) ids.push_back(group.id);
  }
  return ids;
}

LeaseRequest lease_of_group(const std::string& lease_id, const std::string& group, const Replay& replay = {}) {
  LeaseRequest request;
  request.lease_id = lease_id;
  request.group_ids = {group};
  request.replay = replay;
  return request;
}

TEST(StoreTest, ALeaseTakesTheGroupsThatItsOrderPutsFirst) {
  const std::vector<std::pair<LeaseOrder, std::vector<std::string>>> expected = {
      {LeaseOrder::kAge, {"a", "b"}},
      {LeaseOrder::kNewest, {"d", "c"}},
      {LeaseOrder::kVariance, {"c", "b"}},
      {LeaseOrder::kPassRate, {"d", "a"}}};  // one of d's two is correct, of the others none
  for (const auto& [order, ids] : expected) {
    SCOPED_TRACE(name_of(order));
    TemporaryFolder folder("tf-store");
    Store store(folder.path() / "b.sqlite");
    write_groups(store, {{"a", 0.1}, {"b", 0.3}, {"c", 0.4}});
    store.add_groups({group_spec("d")});
    Trajectory right = trajectory("d", 0, 0.5);
    right.turns[0].verdict = MockPeers::correct();
    store.write_trajectory(right, 0);
    store.write_trajectory(trajectory("d", 1, 0.49), 1);
    LeaseRequest request;
    request.lease_id = "l";
    request.count = 2;
    request.order = order;
    EXPECT_EQ(ids_of(store.lease(request), false), ids);
  }
}

TEST(StoreTest, ALeaseTakesWhatIsCompleteFirstButWaitsForWhatMustBeInIt) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  store.add_groups({group_spec("rl-1-0")});  // it runs
  write_groups(store, {{"other", 0.4}, {"rl-1-1", 0.1}, {"rl-2-0", 0.1}, {"rl-2-1", 0.1}});
  const auto lease = [&](const std::string& id, const std::vector<std::string>& at_least) {
    LeaseRequest request;
    request.lease_id = id;
    request.count = 2;
    request.of = "rl-";
    request.at_least = at_least;
    return ids_of(store.lease(request), false);
  };
  EXPECT_THAT(lease("one", {}), ElementsAre("rl-1-1", "rl-2-0"));
  EXPECT_THAT(lease("two", {"rl-1-0", "rl-1-1"}), ElementsAre(HasSubstr("1 of those that must be there run")));
  EXPECT_THAT(lease("two", {"rl-1-1"}),
              ElementsAre(HasSubstr("1 of 2 groups complete")));  // that is with another lease
  store.write_trajectory(trajectory("rl-1-0", 0, 0.1), 0);
  store.write_trajectory(trajectory("rl-1-0", 1, 0.2), 1);
  write_groups(store, {{"rl-3-0", 0.1}});
  EXPECT_THAT(lease("two", {"rl-3-0", "rl-1-1"}), ElementsAre("rl-3-0", "rl-1-0"));
  EXPECT_THAT(lease("two", {}), ElementsAre("rl-3-0", "rl-1-0"));  // as it was granted
  EXPECT_THROW(lease("three", {"rl-9-9"}), Error);
  EXPECT_THROW(lease("three", {"rl-2-1", "other", "rl-1-0", "x"}), Error);
}

TEST(StoreTest, ALeaseReplaysGroupsOfTheLastOnesThoseReplayedLeastFirst) {
  TemporaryFolder folder("tf-store");
  const fs::path path = folder.path() / "b.sqlite";
  auto store = std::make_unique<Store>(path);
  write_groups(*store, {{"a", 0.1}, {"b", 0.3}, {"c", 0.4}, {"d", 0.0}, {"e", 0.2}, {"f", 0.2}, {"x", 0.45}});
  const auto lease = [&](const std::string& group, int64_t replayed) {
    return store->lease(lease_of_group("rl-" + group, group, {replayed, 3, LeaseOrder::kVariance, "rl-"}));
  };
  ASSERT_TRUE(store->lease(lease_of_group("bench", "x")).lease);  // not one of those that are replayed
  for (const char* group : {"a", "b", "c", "d"}) ASSERT_TRUE(lease(group, 0).lease);
  store->commit_lease("rl-b", 2);
  // Of the last three (b, c, d) d teaches nothing, a is too old.
  EXPECT_THAT(ids_of(lease("e", 2), true), ElementsAre("c", "b"));
  const std::string before = text_of(store->leased("rl-e"));
  const SequenceBatch batch = batch_of(store->leased("rl-e"));
  EXPECT_EQ(batch.sequences.size(), 6u);
  EXPECT_EQ(batch.figures.groups, 1);
  EXPECT_EQ(batch.figures.trajectories, 2);
  EXPECT_EQ(batch_of_lease_json(parse_json(before, "lease")), batch);
  EXPECT_EQ(lease_of(store->leased("rl-e"), 9).figures.trajectories, 2);
  // The last three are c, d and e now; e was not replayed yet.
  EXPECT_THAT(ids_of(lease("f", 1), true), ElementsAre("e"));
  store.reset();
  store = std::make_unique<Store>(path);
  EXPECT_EQ(text_of(store->leased("rl-e")), before);
  EXPECT_THAT(ids_of(lease("e", 2), true), ElementsAre("c", "b"));  // the same, asked for again
  EXPECT_THROW(store->lease(lease_of_group("z", "x", {.groups = 1, .leases = 65})), Error);
}

TEST(StoreTest, ALeaseThatEndsUntrainedGivesItsReplaysBack) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  write_groups(store, {{"a", 0.4}, {"b", 0.3}, {"c", 0.2}, {"d", 0.2}});
  const auto lease = [&](const std::string& group, int64_t replayed) {
    return ids_of(store.lease(lease_of_group("rl-" + group, group, {replayed, 9, LeaseOrder::kVariance, "rl-"})), true);
  };
  for (const char* group : {"a", "b"}) lease(group, 0);
  EXPECT_THAT(lease("c", 1), ElementsAre("a"));  // the larger variance, and neither was replayed
  store.release_lease("rl-c");
  EXPECT_THAT(lease("c", 1), ElementsAre("a"));  // again, as if nothing had been
  store.discard_lease("rl-c");
  EXPECT_THAT(lease("d", 1), ElementsAre("a"));
  store.release_lease("rl-d");
  store.discard_lease("rl-d");  // gives nothing back twice
  write_groups(store, {{"e", 0.2}, {"f", 0.2}});
  EXPECT_THAT(lease("e", 1), ElementsAre("a"));
  EXPECT_THAT(lease("f", 1), ElementsAre("b"));
}

TEST(StoreTest, WhatRetentionDoesNotKeepGoesWithTheCommits) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite", {.steps = 2, .trajectories = 8});
  const auto tokens_of = [&](const std::string& group) {
    const Json json = parse_json(store.group_text(group), "group");
    return json["trajectories"][0]["turns"][0]["response_tokens"].size();
  };
  for (int i = 0; i < 6; ++i) {
    const std::string id = fmt::format("g{}", i);
    write_groups(store, {{id, 0.1}});
    ASSERT_TRUE(store.lease(lease_of_group("l" + id, id)).lease);
  }
  write_groups(store, {{"open", 0.1}});
  EXPECT_EQ(store.counts().stored, 14);
  for (int i = 0; i < 6; ++i) store.commit_lease(fmt::format("lg{}", i), i + 1);
  // The tokens of the last two commits; of the older ones the text, as far as eight trajectories allow.
  EXPECT_EQ(tokens_of("g5"), 4u);
  EXPECT_EQ(tokens_of("g4"), 4u);
  EXPECT_EQ(tokens_of("open"), 4u);
  EXPECT_EQ(tokens_of("g3"), 0u);
  for (const char* gone : {"g0", "g1", "g2"}) EXPECT_THROW(store.group_text(gone), Error) << gone;
  EXPECT_EQ(store.counts().stored, 8);
  EXPECT_EQ(store.counts().trajectories, 14);  // what was made
  EXPECT_EQ(store.counts().groups.at("committed"), 6);
  EXPECT_EQ(store.problems(9).at(0).trajectories, 14);
  try {
    store.lease(lease_of_group("lg0", "g0"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("keep_trajectories"));
  }
}

// What stays of a step for ever is its lease and its commit, by their ids.
TEST(StoreTest, OfAStepTheLedgerAloneStays) {
  constexpr int kSteps = 30, kGroups = 8;
  TemporaryFolder folder("tf-store");
  const fs::path path = folder.path() / "b.sqlite";
  Store store(path, {.steps = 2, .trajectories = 8});
  const auto train = [&](int step) {
    const std::string lease = fmt::format("rl-step-{}", step);
    std::vector<GroupSpec> groups;
    for (int i = 0; i < kGroups; ++i) groups.push_back(group_spec(fmt::format("rl-{}-{}", step, i), 1));
    store.add_groups(groups);
    for (const GroupSpec& group : groups) store.write_trajectory(trajectory(group.id, 0, 0.5), 0);
    ASSERT_TRUE(store.lease({.lease_id = lease, .count = kGroups, .group_ids = {}}).lease);
    store.commit_lease(lease, step);
  };
  const auto bytes = [&](const char* of) {
    Database reader = Database::reader_of(path);
    Statement row = reader.prepare(
        fmt::format("SELECT sum(payload) FROM dbstat('main', 1) WHERE {} (SELECT name FROM sqlite_master WHERE "
                    "tbl_name IN ('leases', 'commits', 'sqlite_sequence', 'settings', 'totals', 'problems'))",
                    of));
    row.step();
    return row.integer(0);
  };
  for (int step = 101; step <= 100 + kSteps; ++step) train(step);
  const int64_t ledger = bytes("name IN"), rest = bytes("name NOT IN");
  for (int step = 101 + kSteps; step <= 100 + 2 * kSteps; ++step) train(step);
  EXPECT_EQ(bytes("name NOT IN"), rest);
  const int64_t a_step = (bytes("name IN") - ledger) / kSteps;
  EXPECT_GE(a_step, 10 * kGroups);
  EXPECT_LE(a_step, 11 * kGroups + 120);
}

TEST(StoreTest, TokensStayWhileAnOpenLeaseReplaysThem) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite", {.steps = 1, .trajectories = 0});
  write_groups(store, {{"a", 0.1}, {"b", 0.1}, {"c", 0.1}, {"d", 0.1}, {"e", 0.1}});
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(store.lease(lease_of_group(id, id)).lease);
  store.commit_lease("a", 1);
  ASSERT_THAT(ids_of(store.lease(lease_of_group("d", "d", {.groups = 9, .leases = 1})), true), ElementsAre("c"));
  store.commit_lease("b", 2);
  store.commit_lease("c", 3);
  const std::string before = text_of(store.leased("d"));
  EXPECT_EQ(batch_of(store.leased("d")).sequences.size(), 4u);
  ASSERT_TRUE(store.lease(lease_of_group("e", "e")).lease);
  store.commit_lease("e", 4);  // c's turn to be forgotten
  EXPECT_EQ(text_of(store.leased("d")), before);
  store.commit_lease("d", 5);
  EXPECT_THAT(store.group_text("c"), HasSubstr("\"response_tokens\":[]"));
}

TEST(StoreTest, ManyWritersShareCommitsAndEachHasItsOwnOutcome) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  constexpr int kGroups = 16, kSamples = 8;
  for (int g = 0; g < kGroups; ++g) store.add_groups({group_spec(fmt::format("g{}", g), kSamples)});
  std::vector<std::jthread> threads;
  std::atomic<int> complete{0}, refused{0};
  for (int g = 0; g < kGroups; ++g) {
    threads.emplace_back([&, g] {
      for (int sample = 0; sample < kSamples; ++sample) {
        complete += store.write_trajectory(trajectory(fmt::format("g{}", g), sample, 0.1 * sample), sample);
        try {
          store.commit_lease("none", 1);  // fails among those that do not
        } catch (const Error& error) {
          refused += error.kind() == ErrorKind::kNotFound;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(complete, kGroups);
  EXPECT_EQ(refused, kGroups * kSamples);
  EXPECT_EQ(store.counts().trajectories, kGroups * kSamples);
  EXPECT_EQ(store.counts().groups.at("complete"), kGroups);
}

TEST(StoreTest, ProblemsAreSummedUpAsTheirTrajectoriesAreWritten) {
  TemporaryFolder folder("tf-store");
  Store store(folder.path() / "b.sqlite");
  store.add_groups({group_spec("a", 3), group_spec("b", 1)});
  Trajectory right = trajectory("a", 0, 0.9), failed = trajectory("a", 1, 0);
  right.turns[0].verdict = MockPeers::correct();
  right.turns[0].verdict.speedup = 1.5;
  failed.turns.back().status = TurnStatus::kFailed;
  store.write_trajectory(right, 0);
  store.write_trajectory(failed, 1);
  store.write_trajectory(trajectory("a", 2, 0.3), 2);
  const auto check = [&](int64_t trajectories) {
    const auto problems = store.problems(10);
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_EQ(problems[0].id, "p");
    EXPECT_EQ(problems[0].trajectories, trajectories);
    EXPECT_EQ(problems[0].failed, 1);
    EXPECT_EQ(problems[0].correct, 1);
    EXPECT_NEAR(problems[0].mean_reward, 0.6, 1e-12);
    EXPECT_DOUBLE_EQ(problems[0].best_speedup, 1.5);
  };
  check(3);
  store.write_trajectory(trajectory("b", 0, 0.6), 0);
  check(4);
  ASSERT_TRUE(store.lease(lease_of_group("l", "b")).lease);
  store.discard_lease("l");  // as if it had never been
  check(3);
  EXPECT_EQ(store.counts().trajectories, 3);
  EXPECT_EQ(store.counts().groups.at("complete"), 1);
}

// The file-size limit of this process stands in for a full disk: writes fail in the same place.
TEST(StoreTest, AFullDiskRefusesTheWriteAndLosesNothing) {
  TemporaryFolder folder("tf-store");
  std::signal(SIGXFSZ, SIG_IGN);
  Store store(folder.path() / "b.sqlite");
  store.add_groups({group_spec("a", 64)});
  store.write_trajectory(trajectory("a", 0, 0.3), 0);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 400 << 10;
  setrlimit(RLIMIT_FSIZE, &small);
  int64_t written = 1;
  std::string reason;
  for (; written < 64 && reason.empty(); ++written) {
    try {
      store.write_trajectory(trajectory("a", written, 0.3, 2000), written);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      reason = error.what();
      break;
    }
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(reason, HasSubstr("b.sqlite"));
  EXPECT_EQ(store.counts().trajectories, written);
  store.write_trajectory(trajectory("a", written, 0.3, 2000), written);  // there is room again
  EXPECT_EQ(store.counts().trajectories, written + 1);
}

}  // namespace
}  // namespace tritonforge::rollout
