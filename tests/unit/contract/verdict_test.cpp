#include "contract/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tritonforge {
namespace {

TEST(Verdict, EveryFieldSurvivesTheWire) {
  Verdict v;
  v.stage = Stage::kTimed;
  v.compiled = v.correct = true;
  v.trials = {
      {.seed = ~uint64_t{0}, .passed = true, .max_abs_error = 1e-6, .max_rel_error = 0.5, .mismatch = ""},
      {.seed = 2, .passed = false, .max_abs_error = std::numeric_limits<double>::infinity(), .mismatch = "output 0"}};
  v.runtime = {.mean = 1, .median = 2, .std = 3, .min = 4, .max = 5, .samples = 6};
  v.speedup = 1.5;
  v.speedup_low = 1.5;
  v.speedup_high = 1.9;
  v.error_kind = "mismatch";
  v.diagnostics = "line 3: \"é\"";
  v.flags = {{"no_kernel_launched", "0 launches", true}, {"slow", "", false}};
  v.compile_targets = {{"sm_90", "ok"}};
  v.kernels = {"add_kernel"};
  v.device = "cpu";
  v.mode = "interpret";
  v.notes = {{"sandbox", "landlock"}};
  v.seed = 42;
  v.wall_s = 0.25;
  const Json json = to_json(v);
  EXPECT_EQ(to_json(verdict_from_json(parse_json(json.dump(), "test"))), json);
  EXPECT_TRUE(std::isinf(verdict_from_json(json).trials[1].max_abs_error));
  EXPECT_TRUE(v.cheated());
}

TEST(Verdict, UnknownStageNamesTheNearest) {
  try {
    parse_stage("compield");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("compiled"), std::string::npos) << error.what();
  }
}

TEST(Verdict, WrongFieldTypeIsNamed) {
  EXPECT_THROW(verdict_from_json(Json{{"compiled", "yes"}}), Error);
  EXPECT_THROW(verdict_from_json(Json{{"trials", {1}}}), Error);
  EXPECT_THROW(verdict_from_json(Json::array()), Error);
}

TEST(KernelExecResult, IsAViewOfTheVerdict) {
  Verdict v;
  v.compiled = v.correct = true;
  v.stage = Stage::kTimed;
  v.runtime = {.mean = 0.123456, .samples = 100};
  EXPECT_DOUBLE_EQ(to_kernel_exec_result(v)["runtime"].get<double>(), 0.123);
  v.flags.push_back({"input_mutated", "input 0", true});
  EXPECT_FALSE(to_kernel_exec_result(v)["correctness"].get<bool>());
  v = {};
  v.error_kind = "compile_error";
  v.diagnostics = "at 3:4";
  const Json failed = to_kernel_exec_result(v);
  EXPECT_EQ(failed["runtime"], -1);
  EXPECT_EQ(failed["metadata"]["compilation_error"], "at 3:4");
}

}  // namespace
}  // namespace tritonforge
