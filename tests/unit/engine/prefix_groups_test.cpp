#include "engine/prefix_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/rng.h"

namespace tritonforge::engine {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

PrefixGroups groups_of(const Rows& rows, int64_t most_members = 8, int64_t least_saved = 0) {
  const std::vector<std::span<const int32_t>> spans(rows.begin(), rows.end());
  return group_prefixes(spans, most_members, least_saved);
}
std::vector<std::set<int32_t>> sets_of(const PrefixGroups& g) {
  std::vector<std::set<int32_t>> sets;
  for (size_t i = 0; i + 1 < g.starts.size(); ++i)
    sets.emplace_back(g.members.begin() + g.starts[i], g.members.begin() + g.starts[i + 1]);
  std::ranges::sort(sets);
  return sets;
}
using Sets = std::vector<std::set<int32_t>>;

TEST(PrefixGroups, SamplesOfAPromptAreAGroupWhateverTheirOrder) {
  const auto g = groups_of({{1, 2, 3, 4, 10}, {5, 6, 7, 8}, {1, 2, 3, 4, 11}, {5, 6, 7, 8, 12}, {9}, {1, 2, 3, 4}, {}});
  EXPECT_EQ(sets_of(g), (Sets{{0, 2, 5}, {1, 3}}));
  EXPECT_EQ(g.saved, 2 * 4 + 4);
  EXPECT_EQ(g.pages, (std::vector<int64_t>{4, 4}));
}

TEST(PrefixGroups, APrefixOfAllDoesNotBreakUpTheGroupsWithin) {
  Rows rows;
  for (int32_t prompt = 0; prompt < 4; ++prompt) {
    for (int32_t sample = 0; sample < 4; ++sample) {
      rows.push_back({1, 2});  // of all prompts
      for (int32_t block = 0; block < 20; ++block) rows.back().push_back(100 * (prompt + 1) + block);
      rows.back().push_back(1000 + prompt * 10 + sample);
    }
  }
  EXPECT_EQ(sets_of(groups_of(rows)), (Sets{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}));
}

TEST(PrefixGroups, MoreMembersThanFitAreSeveralGroups) {
  const Rows rows(10, {1, 2, 3, 4, 5, 6});
  const auto g = groups_of(rows, 4);
  EXPECT_EQ(g.members.size(), 10u);
  EXPECT_EQ(g.saved, 7 * 6);
}

TEST(PrefixGroups, LittleIsNotWorthIt) {
  const Rows rows(4, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(groups_of(rows, 8, 14).members.size(), 4u);  // 18 blocks less one a member
  EXPECT_TRUE(groups_of(rows, 8, 15).members.empty());
  EXPECT_TRUE(groups_of(rows, 1).members.empty());
  EXPECT_TRUE(groups_of({{1}, {1}}).members.empty());
  EXPECT_EQ(groups_of(Rows{}).starts.size(), 1u);
}

// Every group is what it says, and no split of the rows into at most two groups saves more.
TEST(PrefixGroups, GroupsHoldAndNoPairOfThemSavesMore) {
  Rng rng(11);
  for (int round = 0; round < 200; ++round) {
    Rows rows(2 + rng.below(6));
    for (auto& row : rows) {
      for (uint64_t n = rng.below(12); n > 0; --n) row.push_back(static_cast<int32_t>(1 + (rng.below(5) == 0)));
    }
    const auto g = groups_of(rows, 7);
    std::set<int32_t> seen;
    int64_t gain = 0;
    for (size_t i = 0; i < g.pages.size(); ++i) {
      ASSERT_GT(g.pages[i], 0);
      ASSERT_GE(g.starts[i + 1] - g.starts[i], 2);
      const auto& first = rows[static_cast<size_t>(g.members[static_cast<size_t>(g.starts[i])])];
      for (int32_t m = g.starts[i]; m < g.starts[i + 1]; ++m) {
        const int32_t row = g.members[static_cast<size_t>(m)];
        EXPECT_TRUE(seen.insert(row).second);
        ASSERT_GE(std::ssize(rows[static_cast<size_t>(row)]), g.pages[i]);
        EXPECT_TRUE(std::equal(first.begin(), first.begin() + g.pages[i], rows[static_cast<size_t>(row)].begin()));
      }
      const int64_t members = g.starts[i + 1] - g.starts[i];
      gain += (members - 1) * g.pages[i] - members;
    }
    const auto gain_of = [&](uint32_t set) {
      std::vector<const std::vector<int32_t>*> in;
      for (size_t i = 0; i < rows.size(); ++i) {
        if (set >> i & 1) in.push_back(&rows[i]);
      }
      if (in.size() < 2) return int64_t{0};
      int64_t pages = std::ssize(*in[0]);
      for (const auto* row : in)
        pages = std::min<int64_t>(pages, std::ranges::mismatch(*in[0], *row).in1 - in[0]->begin());
      return std::max<int64_t>(0, (std::ssize(in) - 1) * pages - std::ssize(in));
    };
    for (uint32_t a = 0; a < 1u << rows.size(); ++a) {
      for (uint32_t b = 0; b < a; ++b) {
        if ((a & b) == 0) {
          EXPECT_GE(gain, gain_of(a) + gain_of(b));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tritonforge::engine
