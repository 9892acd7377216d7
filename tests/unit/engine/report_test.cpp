#include "engine/report.h"

#include <gtest/gtest.h>

namespace tritonforge::engine {
namespace {

TEST(LoadReport, IsALineForEachSecondOfSteps) {
  LoadReport report;
  EngineStats now;
  now.kv_tokens_free = now.kv_tokens_total = 400;
  EXPECT_EQ(report.line(now), "");
  now.step_seconds = 0.9;
  now.generated_tokens = 90;
  EXPECT_EQ(report.line(now), "");
  now = {.running = 3,
         .waiting = 2,
         .kv_tokens_free = 300,
         .kv_tokens_total = 400,
         .prompt_tokens = 40,
         .generated_tokens = 200,
         .step_seconds = 2};
  EXPECT_EQ(report.line(now), "3 running, 2 waiting; 100 tokens/s generated, 20 of prompts; KV cache 25 % used");
  EXPECT_EQ(report.line(now), "");
  now.step_seconds = 3;
  EXPECT_NE(report.line(now).find("; 0 tokens/s generated, 0 of prompts"), std::string::npos);
}

TEST(Metrics, OfTimesAreHistograms) {
  EngineStats stats;
  stats.first_token_time.add(0.0025);  // a bound belongs to its bucket
  stats.first_token_time.add(0.003);
  stats.first_token_time.add(1000);
  const std::string text = metrics_report(stats).body;
  const std::string name = "tritonforge_engine_time_to_first_token_seconds";
  EXPECT_NE(text.find("# TYPE " + name + " histogram\n"), std::string::npos);
  for (const char* line : {"_bucket{le=\"0.001\"} 0\n", "_bucket{le=\"0.0025\"} 1\n", "_bucket{le=\"0.005\"} 2\n",
                           "_bucket{le=\"250\"} 2\n", "_bucket{le=\"+Inf\"} 3\n", "_count 3\n", "_sum 1000.0055\n"})
    EXPECT_NE(text.find(name + line), std::string::npos) << line;
  EXPECT_NE(text.find("# TYPE tritonforge_engine_steps_total counter\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE tritonforge_engine_kv_tokens_free gauge\n"), std::string::npos);
}

}  // namespace
}  // namespace tritonforge::engine
