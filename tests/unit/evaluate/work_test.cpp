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
  const Work product = aten_work(plan_of(Json::array({call("linear", {x, w}, 2)})));
  EXPECT_DOUBLE_EQ(product.computing, 2.0 * 64 * 16 * 32 / 20 + 4 * (64 * 32 + 16 * 32 + 64 * 16));
  EXPECT_EQ(product.moving, 0);
  const Work both = aten_work(plan_of(Json::array({call("linear", {x, w}, 2), call("relu", Json::array({y}), 3)})));
  EXPECT_DOUBLE_EQ(both.computing - product.computing, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
}

TEST(AtenWork, ViewsAreFreeAndCopiesAreApart) {
  const Work work = aten_work(
      plan_of(Json::array({call("view", {{{"t", 0}}, {64, 32}}, 2), call("clone", {{{"t", 2}}}, 3)})));
  EXPECT_EQ(work.computing, 0);
  EXPECT_DOUBLE_EQ(work.moving, 64 * 16 / 20.0 + 4 * 2 * 64 * 16);
  EXPECT_TRUE(only_moves("aten::copy_"));
  EXPECT_FALSE(only_moves("aten::add_"));
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
