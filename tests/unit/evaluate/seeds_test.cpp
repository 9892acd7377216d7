#include "evaluate/seeds.h"

#include <gtest/gtest.h>

#include <set>

namespace tritonforge::evaluate {
namespace {

TEST(Seeds, AreOneForEachUseAndTheSameAgain) {
  const Seeds seeds({1, 2}, 42);
  std::set<uint64_t> found{seeds.of("init"), seeds.of("weights")};
  for (uint64_t k = 0; k < 8; ++k) found.insert({seeds.of("inputs", k), seeds.of("forward", k)});
  EXPECT_EQ(found.size(), 18u);
  for (const uint64_t seed : found) EXPECT_LT(seed, uint64_t{1} << 63);
  EXPECT_EQ(Seeds({1, 2}, 42).of("inputs", 7), seeds.of("inputs", 7));
}

TEST(Seeds, FollowFromTheKeyAndTheRequest) {
  EXPECT_NE(Seeds({1, 2}, 42).of("init"), Seeds({1, 3}, 42).of("init"));
  EXPECT_NE(Seeds({1, 2}, 42).of("init"), Seeds({1, 2}, 43).of("init"));
  EXPECT_NE(random_bits(), random_bits());
}

}  // namespace
}  // namespace tritonforge::evaluate
