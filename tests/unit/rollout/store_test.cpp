#include "rollout/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <future>

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
    EXPECT_EQ(store.leased("l").groups.at(0).bodies.size(), 2u);
    EXPECT_EQ(store.counts().trajectories, 2);
    EXPECT_EQ(store.newest(8, "").size(), 2u);
    EXPECT_THAT(store.group_text("a"), HasSubstr("leased"));
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
  const fs::path path = folder.path() / "b.sqlite";
  {
    Store store(path);
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
  for (const char* older : {"DROP TABLE turns; PRAGMA user_version=2",  // as the versions before wrote it
                            "DROP TABLE turns; ALTER TABLE trajectories DROP COLUMN failed; PRAGMA user_version=1"}) {
    Database(path).execute(older);
    EXPECT_DOUBLE_EQ(Store(path).counts().mean_reward, 0.75);
    EXPECT_EQ(Store(path).counts().failed, 1);
    EXPECT_TRUE(Store(path).kept_turns("a", 0).empty());
  }
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
