#include "tracking/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/filesystem.h"
#include "tracking/event_file.h"

namespace tritonforge::tracking {
namespace {

std::map<std::string, double> values_of(const Point& point) { return {point.values.begin(), point.values.end()}; }

Json rl_step() {
  return {{"stage", "rl"},          {"step", 4},         {"time", 12.5},
          {"kind", "rl"},           {"loss", 0.5},       {"clip_fraction", 0.25},
          {"reward_mean", -0.1},    {"pass_rate", 0.75}, {"trajectories", 8},
          {"response_tokens", 400}, {"collect_s", 3.0},  {"seconds", 12.0},
          {"seconds_forward", 1},   {"seconds_loss", 2}, {"seconds_backward", 3},
          {"seconds_update", 4},    {"kl", nullptr},     {"warning", "none"}};
}

TEST(Figures, GiveAnRlStepTheOriginalsNames) {
  const Point point = point_of_step(rl_step());
  EXPECT_EQ(point.step, 4);
  EXPECT_EQ(point.time, 12.5);
  const auto values = values_of(point);
  EXPECT_EQ(values.at("train/loss"), 0.5);
  EXPECT_EQ(values.at("train/pg_clipfrac"), 0.25);
  EXPECT_EQ(values.at("rollout/raw_reward"), -0.1);
  EXPECT_EQ(values.at("passrate/correctness_pass@1"), 0.75);
  EXPECT_EQ(values.at("rollout/response_lengths"), 50);
  EXPECT_EQ(values.at("perf/wait_time_ratio"), 0.25);
  EXPECT_EQ(values.at("perf/actor_train_time"), 10);
  EXPECT_EQ(values.count("train/kl_loss"), 0u);  // it was not finite
}

TEST(Figures, KeepStepsOfSftApart) {
  const auto values = values_of(point_of_step({{"stage", "sft"}, {"step", 1}, {"loss", 2.0}, {"seconds_pack", 0.5}}));
  EXPECT_EQ(values, (std::map<std::string, double>{{"sft/loss", 2.0}, {"sft/data_preprocess_time", 0.5}}));
  EXPECT_EQ(axis_of("sft/loss"), "sft/step");
  EXPECT_EQ(axis_of("train/loss"), "train/step");
  EXPECT_EQ(axis_of("passrate/correctness_pass@1"), "rollout/step");
}

TEST(Figures, GiveABenchsRowsByTurns) {
  const Json row = {{"name", "sft"}, {"turns", 3}, {"pass_at_1", 0.5}, {"fast_p", {{"1.0", 0.25}}}};
  const Point point = point_of_row(row, 2, 7);
  EXPECT_EQ(point.step, 2);
  EXPECT_EQ(values_of(point),
            (std::map<std::string, double>{{"eval/turns_3/pass_at_1", 0.5}, {"eval/turns_3/fast_1.0", 0.25}}));
}

TEST(Figures, HaveOneKeyEach) {
  std::set<std::string_view> keys, sft;
  for (const FigureName& name : figure_names()) {
    EXPECT_TRUE(keys.insert(name.key).second) << name.key;
    EXPECT_TRUE(sft.insert(name.key.substr(name.key.rfind('/') + 1)).second) << "two figures of SFT: " << name.key;
    EXPECT_FALSE(name.help.empty()) << name.key;
  }
  EXPECT_EQ(prometheus_name("passrate/correctness_pass@1"), "tritonforge_run_passrate_correctness_pass_1");
}

TEST(Figures, AreWhatTheDocumentSays) {
  EXPECT_EQ(read_file(fs::path(TF_SOURCE_DIR) / "docs/metrics.md"), metrics_reference())
      << "tritonforge track --names > docs/metrics.md";
}

TEST(EventFile, HasTheChecksumsOfTheRfc) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(EventFile, WritesProtocolBuffersThatLookAsTheyShould) {
  const std::string record = event_record({.step = 300, .time = 1.0, .values = {{"a", 0.5}}});
  ASSERT_EQ(record.size(), 12 + 9 + 3 + 2 + 2 + 8 + 4u);
  const std::string event = record.substr(12, record.size() - 16);
  EXPECT_EQ(event.substr(9, 3), "\x10\xac\x02");  // step: 300
  EXPECT_EQ(event.substr(12, 2), "\x2a\x0a");     // summary of ten bytes
  EXPECT_EQ(event.substr(16, 3), std::string("\x0a\x01") + "a");
}

}  // namespace
}  // namespace tritonforge::tracking
