#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tritonforge {
namespace {

std::vector<int> shuffled(int count, uint64_t seed) {
  std::vector<int> items(count);
  std::iota(items.begin(), items.end(), 0);
  Rng(seed).shuffle(items);
  return items;
}

// Seeded runs are compared bit for bit: the order may never change.
TEST(Shuffle, HasTheOrderThatRunsAreRecordedWith) {
  EXPECT_EQ(shuffled(8, 1), (std::vector<int>{0, 3, 7, 1, 2, 6, 5, 4}));
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  Rng rng(42);
  for (size_t i = expected.size(); i > 1; --i) std::swap(expected[i - 1], expected[rng.below(i)]);
  EXPECT_EQ(shuffled(100, 42), expected);
}

TEST(Shuffle, DrawsOncePerItemButTheFirst) {
  for (const int count : {0, 1, 2, 5}) {
    std::vector<int> items(count);
    Rng used(7), counted(7);
    used.shuffle(items);
    for (int i = 1; i < count; ++i) counted.next();
    EXPECT_EQ(used.next(), counted.next()) << count;
  }
}

TEST(Shuffle, GivesEveryOrderAboutAsOften) {
  std::map<std::vector<int>, int> seen;
  for (uint64_t seed = 0; seed < 6000; ++seed) ++seen[shuffled(3, seed)];
  EXPECT_EQ(seen.size(), 6u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 150);  // 5 sigma
}

}  // namespace
}  // namespace tritonforge
