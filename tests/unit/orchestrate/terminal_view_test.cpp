#include "orchestrate/terminal_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <numeric>

#include "orchestrate/pace.h"

namespace tritonforge::orchestrate {
namespace {

using ::testing::HasSubstr;

std::vector<RoleStatus> roles() {
  std::vector<RoleStatus> list;
  for (const char* name : {"engine-0", "engine-1", "router", "evaluator", "buffer", "trainer"}) {
    list.push_back({.name = name, .detail = "", .state = RoleState::kGreen, .host = "", .url = "", .figures = {}});
  }
  list.back().restarts = 2;
  return list;
}

std::vector<BenchRow> rows() {
  BenchRow row;
  row.stage = "base";
  row.label = "base";
  row.samples = 40;
  return {row, row};
}

TEST(LiveLines, FitTheWindowWhateverItsSize) {
  RunRecord::Progress progress;
  progress.stage = "rl";
  progress.done = 3;
  progress.total = 12;
  progress.eta_s = 61;
  for (const size_t width : {20u, 39u, 80u, 200u}) {
    for (const size_t height : {1u, 2u, 3u, 6u, 40u}) {
      const auto lines = live_lines(roles(), progress, rows(), width, height);
      ASSERT_LE(lines.size(), height) << width << "x" << height;
      EXPECT_THAT(lines.back(), HasSubstr("rl "));  // the progress is always there
      for (const std::string& line : lines) EXPECT_LE(columns_of(line), width) << line;
      EXPECT_EQ(rows_taken(lines, width), lines.size());
    }
  }
  const auto wide = live_lines(roles(), progress, rows(), 200, 40);
  ASSERT_EQ(wide.size(), 5u);  // the table's head and rows, the roles, the progress
  EXPECT_THAT(wide[0], HasSubstr("pass@1"));
  EXPECT_THAT(wide[3], HasSubstr("trainer (restarted 2x)"));
  EXPECT_THAT(wide[4], HasSubstr("3/12  1:01 left"));
  EXPECT_EQ(live_lines(roles(), progress, rows(), 200, 4).size(), 2u);  // no room for the table
}

TEST(LiveLines, SayWhyARoleIsNotGreenWhereThereIsRoom) {
  const std::vector<std::string> reasons{"trainer: the last checkpoint failed: No space left on device"};
  const RunRecord::Progress progress;
  const auto wide = live_lines(roles(), progress, rows(), 200, 40, reasons);
  ASSERT_EQ(wide.size(), 6u);
  EXPECT_EQ(wide[4], reasons[0]);
  EXPECT_EQ(live_lines(roles(), progress, rows(), 200, 5, reasons).size(), 3u);  // the table goes first
  EXPECT_EQ(live_lines(roles(), progress, rows(), 200, 2, reasons).size(), 2u);  // then the reason
  EXPECT_THAT(live_lines(roles(), progress, rows(), 20, 40, reasons), testing::Contains(reasons[0].substr(0, 20)));
}

TEST(TerminalView, AStateThatLastsIsSaidAgainWithItsReason) {
  std::vector<RoleStatus> list = roles();
  list.back().state = RoleState::kYellow;
  list.back().detail = "the last checkpoint failed: No space left on device";
  RunRecord::Progress progress;
  progress.stage = "sft";
  const auto said = [&](double lasting_s, int times) {
    ::testing::internal::CaptureStderr();
    TerminalView view(lasting_s);
    for (int i = 0; i < times; ++i) view.update(list, progress);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(0, 1), "sft        trainer=yellow\n");
  EXPECT_EQ(said(0, 2),
            "sft        trainer=yellow\nsft        trainer=yellow\n"
            "  trainer: the last checkpoint failed: No space left on device\n");
  EXPECT_EQ(said(1e9, 2), "sft        trainer=yellow\n");
}

TEST(LiveLines, AWindowMadeNarrowerWrapsWhatWasPrinted) {
  EXPECT_EQ(columns_of("\x1b[32m●\x1b[0m trainer"), 9u);
  EXPECT_EQ(rows_taken({std::string(80, 'x'), "", "\x1b[32m●\x1b[0m"}, 100), 3u);
  EXPECT_EQ(rows_taken({std::string(80, 'x'), "", "\x1b[32m●\x1b[0m"}, 40), 4u);
  EXPECT_EQ(rows_taken({std::string(81, 'x')}, 40), 3u);
}

// What a terminal shows of a text that addresses rows and overwrites them; no escape sequence but those of redrawn().
std::vector<std::string> shown(const std::string& text, size_t rows) {
  std::vector<std::string> screen(rows, "old");
  size_t row = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      const size_t end = text.find_first_of("HK", at);
      if (text[end] == 'K') screen[row].clear();
      else row = end == at + 2 ? 0 : std::stoul(text.substr(at + 2)) - 1;
      at = end;
    } else if (text[at] == '\n') {
      ++row;
    } else {
      screen.at(row) += text[at];
    }
  }
  EXPECT_LT(row, rows) << "the screen would scroll";
  return screen;
}

TEST(Redrawn, TheNewestLinesAndTheLivePartFillTheWindowAndNothingOldStays) {
  const std::deque<std::string> above{"one", "two", "three"};
  const std::vector<std::string> live{"table", "bar"};
  using ::testing::ElementsAre;
  EXPECT_THAT(shown(redrawn(above, live, {80, 7}), 7), ElementsAre("one", "two", "three", "table", "bar", "", ""));
  EXPECT_THAT(shown(redrawn(above, live, {80, 5}), 5), ElementsAre("two", "three", "table", "bar", ""));
  EXPECT_THAT(shown(redrawn(above, live, {80, 3}), 3), ElementsAre("table", "bar", ""));
  EXPECT_THAT(shown(redrawn(above, {}, {80, 2}), 2), ElementsAre("three", ""));
  // A line that wraps takes two rows: it does not fit above the others.
  EXPECT_THAT(shown(redrawn({std::string(90, 'x'), "two"}, live, {80, 5}), 5),
              ElementsAre("two", "table", "bar", "", ""));
}

TEST(Pace, TheFirstUnitDoesNotCountAndTheUnitUnderWayDoes) {
  Pace pace;
  EXPECT_EQ(pace.left(5, 10), 0);
  pace.at(0, 0);
  EXPECT_EQ(pace.left(5, 10), 0);
  pace.at(60, 1);  // compilers, caches
  EXPECT_GT(pace.left(60, 10), 500);
  pace.at(62, 2);
  EXPECT_NEAR(pace.left(62, 10), 16, 1e-9);
  EXPECT_NEAR(pace.left(63, 10), 15, 1e-9);
  EXPECT_NEAR(pace.left(70, 10), 14, 1e-9);  // it takes longer than the others did
  pace.at(64, 10);
  EXPECT_EQ(pace.left(70, 10), 0);
}

TEST(Pace, UnitsThatAreMadeAgainTakeAsLongAsBefore) {
  Pace pace;
  for (int unit = 0; unit <= 7; ++unit) pace.at(2 * unit, unit);
  EXPECT_NEAR(pace.left(14, 8), 2, 1e-9);
  pace.at(20, 4);  // the trainer died: four steps are ahead again
  EXPECT_NEAR(pace.left(20, 8), 8, 1e-9);
  pace.at(22, 5);
  EXPECT_NEAR(pace.left(22, 8), 6, 1e-9);
}

// Seconds of the steps of real runs (two cores, no GPU, models/tiny-base; how they were taken is in the file).
TEST(Pace, AfterATenthOfAStageTheTimeLeftIsWithinAFifthOfWhatItWas) {
  const Json recorded = parse_json(read_file(fs::path(TF_SOURCE_DIR) / "tests/data/step_times.json"),
                                   "step_times.json");
  ASSERT_GE(recorded["stages"].size(), 2u);
  for (const auto& [stage, times] : recorded["stages"].items()) {
    const auto seconds = times.get<std::vector<double>>();
    const auto total = static_cast<int64_t>(seconds.size());
    const double whole = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    Pace pace;
    pace.at(0, 0);
    double now = 0;
    for (int64_t done = 1; done < total; ++done) {
      now += seconds[static_cast<size_t>(done - 1)];
      pace.at(now, done);
      if (done == (total + 9) / 10) {
        EXPECT_NEAR(pace.left(now, total), whole - now, 0.2 * (whole - now)) << stage << " after " << done;
      }
    }
  }
}

}  // namespace
}  // namespace tritonforge::orchestrate
