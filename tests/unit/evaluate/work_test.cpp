#include "evaluate/plan/work.h"

#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

// x [64, 32] and w [16, 32]; what `steps` make of them is [64, 16].
Plan plan_of(const Json& steps) {
  return parse_plan({{"values",
                      {{{"dtype", "float32"}, {"shape", {64, 32}}, {"stride", {32, 1}}, {"input", 0}},
                       {{"dtype", "float32"}, {"shape", {16, 32}}, {"stride", {32, 1}}, {"weight", "w"}},
                       {{"dtype", "float32"}, {"shape", {64, 16}}, {"stride", {16, 1}}},
                       {{"dtype", "float32"}, {"shape", {64, 16}}, {"stride", {16, 1}}}}},
                     {"kernels", Json::array()},
                     {"steps", steps},
                     {"outputs", {{"tensor", 0}}},
                     {"inputs", 1},
                     {"texts", Json::array()},
                     {"constants", Json::array()}},
                    {});
}

Json call(const std::string& name, const Json& args, int out) {
  return {{"aten", "aten::" + name}, {"overload", ""}, {"args", args}, {"kwargs", Json::object()}, {"out", {out}}};
}

TEST(AtenWork, IsFlopsAndBytes) {
  const Json x = {{"t", 0}}, w = {{"t", 1}}, y = {{"t", 2}};
  const Work product = aten_work(plan_of(Json::array({call("linear", {x, w}, 2)})), {});
  EXPECT_DOUBLE_EQ(product.computing, 2.0 * 64 * 16 * 32 / 20 + 4 * (64 * 32 + 16 * 32 + 64 * 16));
  EXPECT_EQ(product.moving, 0);
  const Work both = aten_work(plan_of(Json::array({call("linear", {x, w}, 2), call("relu", Json::array({y}), 3)})),
                              {"relu"});
  EXPECT_DOUBLE_EQ(both.computing - product.computing, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
}

TEST(BoundWork, IsTheBytesOfWhatALaunchIsGivenEachTensorOnce) {
  const Json x = {{"t", 0}}, w = {{"t", 1}};
  const Plan plan = parse_plan(
      {{"values",
        {{{"dtype", "float32"}, {"shape", {64, 32}}, {"stride", {32, 1}}, {"input", 0}},
         {{"dtype", "float16"}, {"shape", {16, 32}}, {"stride", {32, 1}}, {"weight", "w"}}}},
       {"kernels", {{{"name", "k"}, {"options", Json::object()}, {"ir", Json::object()}, {"errors", Json::object()}}}},
       {"steps",
        {{{"launch", 0}, {"grid", {1, 1, 1}}, {"args", {x, w, x, {{"i", 3}}}}},
         {{"launch", 0}, {"grid", {1, 1, 1}}, {"args", {w}}}}},
       {"outputs", {{"tensor", 0}}},
       {"inputs", 1},
       {"texts", Json::array()},
       {"constants", Json::array()}},
      {});
  const Work work = bound_work(plan, {false, true});
  EXPECT_DOUBLE_EQ(work.computing, 4 * 64 * 32 + 2 * 16 * 32);
  EXPECT_DOUBLE_EQ(work.moving, 2 * 16 * 32);
}

TEST(ProductFlops, AreOfProductsAlone) {
  const Json x = {{"t", 0}}, w = {{"t", 1}}, y = {{"t", 2}};
  const Json both = Json::array({call("linear", {x, w}, 2), call("relu", Json::array({y}), 3)});
  EXPECT_DOUBLE_EQ(product_flops(plan_of(both)), 2.0 * 64 * 16 * 32);
  EXPECT_DOUBLE_EQ(product_flops(plan_of(Json::array({call("_cdist_forward", {x, w}, 2)}))), 2.0 * 64 * 16 * 32);
}

TEST(AtenWork, ViewsAreFreeAndCopiesAreApart) {
  const Work work = aten_work(
      plan_of(Json::array({call("view", {{{"t", 0}}, {64, 32}}, 2), call("clone", {{{"t", 2}}}, 3)})), {});
  EXPECT_EQ(work.computing, 0);
  EXPECT_DOUBLE_EQ(work.moving, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
  EXPECT_TRUE(only_moves("aten::copy_"));
  EXPECT_FALSE(only_moves("aten::add_"));
}

// A plan of one call whose tensors have these shapes, the last one being its result.
Work work_of(const std::string& name, const std::vector<std::vector<int64_t>>& shapes, const Json& more = Json::array(),
             const std::set<std::string>& familiar = {}) {
  Json values = Json::array(), args = Json::array();
  for (const auto& shape : shapes) {
    values.push_back({{"dtype", "float32"}, {"shape", shape}, {"stride", shape}});
    if (args.size() + 1 == shapes.size()) continue;
    values.back()["input"] = args.size();
    args.push_back({{"t", args.size()}});
  }
  for (const auto& argument : more) args.push_back(argument);
  return aten_work(parse_plan({{"values", values},
                               {"kernels", Json::array()},
                               {"steps", {call(name, args, static_cast<int>(shapes.size()) - 1)}},
                               {"outputs", {{"tensor", 0}}},
                               {"inputs", shapes.size() - 1},
                               {"texts", Json::array()},
                               {"constants", Json::array()}},
                              {}),
                   familiar);
}

TEST(AtenWork, OfATransposedConvolutionEachInputGoesToAFiltersResults) {
  const Json ordinary = {nullptr, {1}, {0}, {1}, false, {0}, 1}, transposed = {nullptr, {1}, {0}, {1}, true, {0}, 1};
  const double bytes = 4 * (2 * 8 * 100 + 8 * 16 * 3 + 2 * 16 * 102);
  EXPECT_DOUBLE_EQ(work_of("convolution", {{2, 8, 100}, {8, 16, 3}, {2, 16, 102}}, transposed).computing,
                   2.0 * (2 * 8 * 100) * (16 * 3) / 20 + bytes);
  EXPECT_DOUBLE_EQ(work_of("convolution", {{2, 8, 102}, {16, 8, 3}, {2, 16, 100}}, ordinary).computing,
                   2.0 * (2 * 16 * 100) * (8 * 3) / 20 + 4 * (2 * 8 * 102 + 16 * 8 * 3 + 2 * 16 * 100));
}

TEST(AtenWork, OfProductsThatAreAddedUpEveryOneCounts) {
  const double results = 24 * 40, bytes = 4 * (results + 64 * 24 * 16 + 64 * 16 * 40 + results);
  for (const char* name : {"addbmm", "addbmm_"}) {
    EXPECT_DOUBLE_EQ(work_of(name, {{24, 40}, {64, 24, 16}, {64, 16, 40}, {24, 40}}).computing,
                     2 * results * 16 * 64 / 20 + bytes + 2 * 4 * results * 64);
  }
}

TEST(AtenWork, OneCallForAFormulaWeighsAsItsCallsWhereTheReferenceSpellsItOut) {
  const double once = 64 * 16 / 20.0 + 4 * 2 * 64 * 16;
  EXPECT_DOUBLE_EQ(work_of("gelu", {{64, 16}, {64, 16}}).computing, 14 * once);
  EXPECT_DOUBLE_EQ(work_of("gelu_", {{64, 16}, {64, 16}}, Json::array(), {"gelu"}).computing, once);
  EXPECT_DOUBLE_EQ(work_of("exp", {{64, 16}, {64, 16}}).computing, once);
  const double window = work_of("avg_pool2d", {{1, 1, 32, 32}, {1, 1, 29, 29}}, {{4, 4}}).computing;
  EXPECT_DOUBLE_EQ(window - work_of("avg_pool2d", {{1, 1, 32, 32}, {1, 1, 29, 29}}, {{4, 4}}, {"avg_pool2d"}).computing,
                   4 * 29 * 29 * 16);
  const double attention = work_of("scaled_dot_product_attention", {{8, 16, 4}, {8, 32, 4}, {8, 32, 4}, {8, 16, 4}})
                               .computing;
  EXPECT_GT(attention, 18 * 4 * 8 * 16 * 32);
  EXPECT_GT(work_of("_cdist_forward", {{48, 24}, {40, 24}, {48, 40}}).computing, 4.0 * 48 * 40 * 24 / 20);
}

TEST(AtenWork, WhatOperandsAreBroadcastToCountsByItsOperationsOnly) {
  EXPECT_DOUBLE_EQ(work_of("mul", {{32, 48, 1}, {48, 40}, {32, 48, 40}}).computing,
                   32 * 48 * 40 / 20.0 + 4 * (32 * 48 + 48 * 40));
  EXPECT_DOUBLE_EQ(work_of("add", {{64, 16}, {16}, {64, 16}}).computing, 64 * 16 / 20.0 + 4 * (2 * 64 * 16 + 16));
  // An embedding's rows are written, however small its table is.
  EXPECT_DOUBLE_EQ(work_of("embedding", {{16, 32}, {64}, {64, 32}}).computing,
                   64 * 32 / 20.0 + 4 * (16 * 32 + 64 + 64 * 32));
}

TEST(OwnShare, IsTheSmallerOfTwo) {
  const Work reference{.computing = 100};
  EXPECT_DOUBLE_EQ(own_share({.computing = 300}, {}, reference), 1);
  EXPECT_DOUBLE_EQ(own_share({}, {.computing = 100}, reference), 0);
  EXPECT_DOUBLE_EQ(own_share({.computing = 30}, {.computing = 70}, reference), 0.3);
  EXPECT_DOUBLE_EQ(own_share({.computing = 7000}, {.computing = 70}, reference), 0.3);  // launches for show
  EXPECT_DOUBLE_EQ(own_share({.computing = 10}, {.computing = 40}, reference), 0.2);    // cheaper torch calls
  EXPECT_DOUBLE_EQ(own_share({.computing = 10}, {.computing = 400}, reference), 0);
  EXPECT_DOUBLE_EQ(own_share({.computing = 10}, {.computing = 40}, std::nullopt), 0.2);
}

TEST(OwnShare, CopiesCountWhereTheReferenceOnlyMovesData) {
  const Work reference{.computing = 100, .moving = 50};
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {.computing = 100}, reference), 0);
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {.computing = 40}, reference), 0);
  EXPECT_DOUBLE_EQ(own_share({.computing = 100}, {.moving = 50}, reference), 1);  // a cast before an honest kernel
  // Nothing is left to torch: what kernels do may look like a copy, as a relu of what is positive does.
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {}, reference), 1);
  const Work transposition{.moving = 80};
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {}, transposition), 1);
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {.moving = 80}, transposition), 0);
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 60, /*copies=*/true), {.moving = 20}, transposition), 0.75);
}

}  // namespace
}  // namespace tritonforge::evaluate
