#include "evaluate/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

Json small_plan() {
  return Json::parse(R"({
    "values": [{"dtype": "float32", "shape": [4, 8], "stride": [8, 1], "input": 0},
               {"dtype": "float32", "shape": [4, 8], "stride": [8, 1]}],
    "kernels": [{"name": "k", "options": {}, "ir": {"sm_90": 0}, "errors": {}}],
    "steps": [{"aten": "aten::empty_like", "overload": "", "args": [{"t": 0}], "kwargs": {}, "out": [1]},
              {"launch": 0, "grid": [2, 1, 1], "args": [{"t": 0}, {"t": 1}, {"i": 32}]}],
    "outputs": {"tuple": [{"tensor": 1}]}, "inputs": 1, "texts": [4], "constants": []})");
}

std::string refusal(const Json& plan, const PlanLimits& limits = {}) {
  const std::string payload = "text";
  try {
    parse_plan(plan, std::as_bytes(std::span(payload)), limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Plan, IsRead) {
  const std::string payload = "text";
  const Plan plan = parse_plan(small_plan(), std::as_bytes(std::span(payload)));
  EXPECT_EQ(plan.texts, std::vector<std::string>{"text"});
  EXPECT_EQ(plan.launches(), 1u);
  EXPECT_EQ(plan.output_values, std::vector<int>{1});
  EXPECT_EQ(plan.outputs.dump(), R"({"tuple":[{"tensor":0}]})");
}

TEST(Plan, AnOutputIsByRowWhereEachElementFollowsTheOneBefore) {
  const auto ordered = [](const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) -> bool {
    Json plan = small_plan();
    plan["values"][1]["shape"] = shape;
    plan["values"][1]["stride"] = stride;
    const std::string payload = "text";
    return by_row(parse_plan(plan, std::as_bytes(std::span(payload)))).at(0);
  };
  EXPECT_TRUE(ordered({4, 8}, {8, 1}));
  EXPECT_FALSE(ordered({4, 8}, {1, 4}));
  EXPECT_FALSE(ordered({4, 8}, {16, 1}));
  EXPECT_TRUE(ordered({4, 1, 8}, {8, 77, 1}));  // of one element there is no step
  EXPECT_TRUE(ordered({0, 8}, {1, 3}));
}

TEST(Plan, AnOutputRepeatsWhatItHasMoreElementsOfThanMemory) {
  const auto repeats = [](const std::vector<int64_t>& stride) -> bool {
    Json plan = small_plan();
    plan["values"][1]["stride"] = stride;
    const std::string payload = "text";
    return repeats_of(parse_plan(plan, std::as_bytes(std::span(payload)))).at(0);
  };
  EXPECT_FALSE(repeats({8, 1}));
  EXPECT_FALSE(repeats({1, 4}));
  EXPECT_FALSE(repeats({16, 2}));
  EXPECT_TRUE(repeats({0, 1}));
  EXPECT_TRUE(repeats({1, 0}));
  EXPECT_TRUE(repeats({1, 1}));  // windows of eight that overlap
}

// One change of the small plan each, and what is said of it.
TEST(Plan, IsChecked) {
  const std::vector<std::tuple<std::string, Json, std::string>> changes = {
      {"/steps/0/aten", "aten::set_", "operation aten::set_ is not replayed"},
      {"/steps/0/aten", "prim::Print", "operation prim::Print is not replayed"},
      {"/steps/0/args/0/t", 1, "step 0 (aten::empty_like): value 1 is used before it is made"},
      {"/steps/0/args/0/t", 7, "value 7 of 2"},
      {"/steps/0/out/0", -1, "result -1 of 2"},
      {"/steps/1/launch", 1, "kernel 1 of 1"},
      {"/steps/1/grid", Json::array({1 << 20, 1 << 20, 1}), "step 1 (kernel k): more than 4194304 programs"},
      {"/steps/1/grid", Json::array({-1, 1, 1}), "grid holds -1"},
      {"/values/1/shape", Json::array({int64_t{1} << 40, 8}), "a tensor of more than"},
      {"/values/0/input", 3, "input 3 of 1"},
      {"/kernels/0/ir/sm_90", 1, "text 1 of 1"},
      {"/texts/0", 5, "kernel texts of more than"},
      {"/outputs/tuple/0/tensor", 2, "output 2 of 2"},
      {"/values", 3, "'values' is no list"},
  };
  for (const auto& [path, value, text] : changes) {
    Json plan = small_plan();
    plan[Json::json_pointer(path)] = value;
    EXPECT_THAT(refusal(plan), HasSubstr(text)) << path;
  }
  EXPECT_EQ(refusal(small_plan()), "accepted");
  EXPECT_THAT(refusal(small_plan(), {.steps = 1}), HasSubstr("'steps' is no list of at most 1"));
  Json missing = small_plan();
  missing.erase("outputs");
  EXPECT_THAT(refusal(missing), HasSubstr("a field is missing"));
}

// A second kernel for a second configuration, of which the launch is one as well.
Json tuned_plan() {
  Json plan = small_plan();
  plan["kernels"].push_back(plan["kernels"][0]);
  plan["tunings"] = {{{"configurations", {"B 16", "B 32"}}, {"left_out", 1}}};
  Json other = plan["steps"][1];
  other["launch"] = 1;
  other["of"] = {0, 0};
  plan["steps"][1]["of"] = {0, 1};
  plan["steps"].push_back(other);
  return plan;
}

TEST(Plan, StepsMayBeOfOneConfiguration) {
  const std::string payload = "text";
  const Plan plan = parse_plan(tuned_plan(), std::as_bytes(std::span(payload)));
  ASSERT_EQ(plan.tunings.size(), 1u);
  EXPECT_EQ(plan.tunings[0].configurations[1], "B 32");
  EXPECT_EQ(plan.tunings[0].left_out, 1u);
  EXPECT_EQ(plan.steps[0].tuning, -1);
  EXPECT_EQ(plan.steps[1].configuration, 1);
  const std::vector<std::tuple<std::string, Json, std::string>> changes = {
      {"/steps/1/of", {1, 0}, "tuning 1 of 1"},
      {"/steps/1/of", {0, 2}, "configuration 2 of 2"},
      {"/steps/1/of", {0}, "a field is missing"},
      {"/steps/1/of", {0, 1, 2}, "'of' is no list of at most 2"},
      {"/tunings/0/configurations", Json::array(), "a tuning without configurations"},
      {"/tunings/0/configurations", Json(std::vector<std::string>(9, "B")), "'configurations' is no list of at most 8"},
      {"/tunings", Json(std::vector<Json>(257, tuned_plan()["tunings"][0])), "'tunings' is no list of at most 256"},
  };
  for (const auto& [path, value, text] : changes) {
    Json changed = tuned_plan();
    changed[Json::json_pointer(path)] = value;
    EXPECT_THAT(refusal(changed), HasSubstr(text)) << path;
  }
}

TEST(Plan, WhatAConfigurationMakesIsItsOwn) {
  Json plan = tuned_plan();
  plan["values"].push_back(plan["values"][1]);
  Json made = plan["steps"][0];
  made["out"] = {2};
  made["of"] = {0, 1};
  plan["steps"].insert(plan["steps"].begin() + 1, made);
  plan["steps"][2]["args"][1]["t"] = 2;
  EXPECT_EQ(refusal(plan), "accepted");
  plan["steps"][3]["args"][1]["t"] = 2;
  EXPECT_THAT(refusal(plan), HasSubstr("step 3 (kernel k): value 2 is made by another configuration alone"));
  plan["steps"][3]["args"][1]["t"] = 1;
  plan["outputs"]["tuple"][0]["tensor"] = 2;
  EXPECT_THAT(refusal(plan), HasSubstr("outputs: value 2 is made by another configuration alone"));
}

// One configuration is run at a time.
TEST(Plan, ProgramsAreThoseOfTheLargestConfiguration) {
  Json plan = tuned_plan();
  EXPECT_EQ(refusal(plan, {.programs = 2}), "accepted");
  plan["steps"].push_back(plan["steps"][1]);
  EXPECT_THAT(refusal(plan, {.programs = 3}), HasSubstr("more than 3 programs"));
  plan["steps"][3].erase("of");
  EXPECT_THAT(refusal(plan, {.programs = 3}), HasSubstr("more than 3 programs"));
  EXPECT_EQ(refusal(plan, {.programs = 4}), "accepted");
}

TEST(Plan, KernelsAloneSayWhichConfigurationLaunchesThem) {
  const std::string payload = "text";
  Json json = tuned_plan();
  json["launches"] = Json::parse(
      R"([{"launch": 0, "grid": [4, 5, 1], "of": [0, 1]}, {"launch": 1, "grid": [1, 1, 1]}])");
  const Plan plan = parse_kernels(json, std::as_bytes(std::span(payload)));
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.steps[0].tuning, 0);
  EXPECT_EQ(plan.steps[1].tuning, -1);
  EXPECT_EQ(plan.steps[0].grid, (std::array<int64_t, 3>{4, 5, 1}));
  for (const char* wrong :
       {R"({"launch": 2, "grid": [1, 1, 1]})", R"({"launch": 0, "grid": [1, 1]})",
        R"({"launch": 0, "grid": [-1, 1, 1]})", R"({"launch": 0, "grid": [4294967296, 64, 1]})", R"({"launch": 0})"}) {
    json["launches"][0] = Json::parse(wrong);
    EXPECT_THROW(parse_kernels(json, std::as_bytes(std::span(payload))), Error) << wrong;
  }
}

TEST(Plan, InPlaceFormsAreAllowedWithTheirOperation) {
  EXPECT_TRUE(is_allowed("aten::add_"));
  EXPECT_TRUE(is_allowed("aten::relu_"));
  EXPECT_FALSE(is_allowed("aten::resize_"));
  EXPECT_FALSE(is_allowed("aten::einsum"));  // the recorder takes it apart
  EXPECT_FALSE(is_allowed("aten::from_file"));
  EXPECT_FALSE(is_allowed("add"));
  EXPECT_TRUE(is_free("aten::transpose"));
  EXPECT_FALSE(is_free("aten::clone"));
}

}  // namespace
}  // namespace tritonforge::evaluate
