// What /metrics, /v2/status, /v2/progress and /v2/problems read of the buffer's file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>

#include "base/filesystem.h"
#include "mock_peers.h"
#include "rollout/generator.h"
#include "rollout/store.h"

namespace tritonforge::rollout {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The statements of every connection that is opened while it is there, each with the steps of SQLite's virtual machine
// that its last run took: what it read, and no time.
class Asked {
 public:
  Asked() { sqlite3_auto_extension(reinterpret_cast<void (*)()>(&watch)); }
  ~Asked() { sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(&watch)); }
  static std::map<std::string, int> by(const std::function<void()>& reads) {
    steps().clear();
    reads();
    return std::exchange(steps(), {});
  }

 private:
  static std::map<std::string, int>& steps() {
    static std::map<std::string, int> steps;
    return steps;
  }
  static int watch(sqlite3* connection, char** /*error*/, const struct sqlite3_api_routines* /*api*/) {
    return sqlite3_trace_v2(connection, SQLITE_TRACE_PROFILE, &note, nullptr);
  }
  static int note(unsigned /*event*/, void* /*context*/, void* statement, void* /*nanoseconds*/) {
    auto* ended = static_cast<sqlite3_stmt*>(statement);
    steps()[sqlite3_sql(ended)] = sqlite3_stmt_status(ended, SQLITE_STMTSTATUS_VM_STEP, /*resetFlg=*/1);
    return 0;
  }
};

// `count` groups of a problem each, with a trajectory and another one's first answer.
void write_some(Store& store, const std::string& prefix, int count) {
  std::vector<GroupSpec> groups;
  for (int i = 0; i < count; ++i) {
    groups.push_back(group_spec(fmt::format("{}{}", prefix, i)));
    groups.back().problem_id = groups.back().id;
  }
  store.add_groups(groups);
  for (const GroupSpec& group : groups) {
    Trajectory whole = failed_trajectory(group, 0, Fault::kNone, "");
    whole.turns[0].status = TurnStatus::kCompleted;
    store.write_trajectory(whole, 0);
    store.keep_turn(group.id, 1, 0, {whole.turns[0], false});
  }
}

TEST(StoreFigures, CostTheSameHoweverMuchThereIs) {
  const Asked asked;
  TemporaryFolder folder("tf-store");
  const fs::path path = folder.path() / "b.sqlite";
  Store store(path);
  const auto figures = [&] {
    store.counts();
    store.progress("");
    store.progress("one-");
    store.problems(5);
    store.legacy_counts();
  };
  write_some(store, "one-", 1);
  store.keep_turn("one-0", 1, 0, {store.kept_turns("one-0", 1).at(0).turn, true});
  write_some(store, "some-", 260);  // more than the mean of the last ones takes
  const auto before = Asked::by(figures);
  EXPECT_GE(before.size(), 8u);
  write_some(store, "more-", 40);
  const auto after = Asked::by(figures);
  Database plans = Database::reader_of(path);
  for (const auto& [sql, steps] : before) {
    if (!sql.starts_with("SELECT")) continue;
    std::string plan;
    for (Statement row = plans.prepare("EXPLAIN QUERY PLAN " + sql); row.step();) plan += row.text(3) + "\n";
    SCOPED_TRACE(sql + "\n" + plan);
    EXPECT_EQ(after.at(sql), steps);
    EXPECT_THAT(plan, Not(HasSubstr("TEMP B-TREE")));
    if (sql.find(" LIMIT ") != std::string::npos) continue;  // a scan that ends there
    for (const char* table : {"groups", "trajectories", "turns", "tokens", "leases", "commits", "items", "problems"})
      EXPECT_THAT(plan, Not(HasSubstr(fmt::format("SCAN {}", table))));
  }
}

}  // namespace
}  // namespace tritonforge::rollout
