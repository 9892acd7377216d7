#include <gtest/gtest.h>

#include "evaluate/plan/work.h"

namespace tritonforge::evaluate {
namespace {

// [batch, M, K] x [batch, K, N] by torch, beside a reference of one product [1, 4096, 4096] x [1, 4096, 4096].
double share_beside_pieces(int64_t batch, int64_t m, int64_t k, int64_t n) {
  const auto plan = [&](int64_t b, int64_t rows, int64_t inner, int64_t columns) {
    const auto tensor = [](int64_t x, int64_t y, int64_t z) {
      return Json{{"dtype", "float32"}, {"shape", {x, y, z}}, {"stride", {y * z, z, 1}}};
    };
    const Json product = {{"aten", "aten::bmm"},
                          {"overload", ""},
                          {"args", {{{"t", 0}}, {{"t", 1}}}},
                          {"kwargs", Json::object()},
                          {"out", {2}}};
    Json values = {tensor(b, rows, inner), tensor(b, inner, columns), tensor(b, rows, columns)};
    values[0]["input"] = 0;
    values[1]["input"] = 1;
    return parse_plan({{"values", values},
                       {"kernels", Json::array()},
                       {"steps", {product}},
                       {"outputs", {{"tensor", 2}}},
                       {"inputs", 2},
                       {"texts", Json::array()},
                       {"constants", Json::array()}},
                      {});
  };
  const ReferenceWork reference = reference_work(plan(1, 4096, 4096, 4096));
  return own_share({.computing = 1e30}, aten_work(plan(batch, m, k, n), reference), reference.work);
}

TEST(OwnShare, WhatPiecesOfAProductSaveIsDoneByTorch) {
  EXPECT_EQ(share_beside_pieces(7, 2048, 2048, 2048), 0);   // Strassen's
  EXPECT_EQ(share_beside_pieces(49, 1024, 1024, 1024), 0);  // and his again
  // A piece that is no more than a small part of the work is four of it at most.
  EXPECT_NEAR(share_beside_pieces(1, 4096, 256, 4096), 1 - 4.0 / 16, 0.03);
}

TEST(OwnShare, PartsOfAProductsResultAreNoMoreThanTheyAre) {
  EXPECT_NEAR(share_beside_pieces(1, 4096, 4096, 2048), 0.5, 0.02);
  EXPECT_NEAR(share_beside_pieces(1, 1024, 4096, 1024), 15.0 / 16, 0.02);
  EXPECT_EQ(share_beside_pieces(1, 4096, 4096, 4096), 0);
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
  // Nobody computes: a copy beside torch's casts, which cut off what the problem wants cut off.
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {.moving = 150}, reference), 0);
  const Work transposition{.moving = 80};
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {}, transposition), 1);
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 80, /*copies=*/true), {.moving = 80}, transposition), 0);
  EXPECT_DOUBLE_EQ(own_share(launch_work(0, 60, /*copies=*/true), {.moving = 20}, transposition), 0.75);
}

}  // namespace
}  // namespace tritonforge::evaluate
