#include "train/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/rng.h"
#include "unit/parallel/run_ranks.h"

namespace tritonforge::train {
namespace {

std::vector<int64_t> packed(size_t sequences, int64_t longest, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> starts{0};
  for (size_t i = 0; i < sequences; ++i)
    starts.push_back(starts.back() + static_cast<int64_t>(rng.below(static_cast<uint64_t>(longest) + 1)));
  return starts;
}

TEST(Ring, EveryTokenIsOneRanksAndNoRankHasMoreThanItsShareRoundedUp) {
  for (const int64_t ranks : {1, 2, 3, 5, 8}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const std::vector<int64_t> starts = packed(seed, seed % 2 == 0 ? 7 : 100, seed);
      const Zigzag zigzag(starts, ranks);
      std::vector<int64_t> all;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const std::vector<int64_t> tokens = zigzag.tokens_of(rank);
        EXPECT_LE(std::ssize(tokens), (starts.back() + ranks - 1) / ranks);
        EXPECT_TRUE(std::ranges::is_sorted(tokens));
        all.insert(all.end(), tokens.begin(), tokens.end());
      }
      std::ranges::sort(all);
      std::vector<int64_t> expected(static_cast<size_t>(starts.back()));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
    }
  }
}

// Over all rounds each query sees each key of its sequence up to its own token, once, and no other.
TEST(Ring, EveryQuerySeesEveryKeyBeforeItOnce) {
  for (const int64_t ranks : {1, 2, 3, 4}) {
    const std::vector<int64_t> starts = packed(9, 40, 7 + static_cast<uint64_t>(ranks));
    const Zigzag zigzag(starts, ranks);
    std::multiset<std::pair<int64_t, int64_t>> seen, expected;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const std::vector<int64_t> mine = zigzag.tokens_of(rank);
      for (int64_t from = 0; from < ranks; ++from) {
        const std::vector<int64_t> theirs = zigzag.tokens_of(from);
        for (const Zigzag::Span& span : zigzag.spans(rank, from)) {
          for (int64_t q = 0; q < span.queries; ++q) {
            const int64_t keys = from == rank ? q + 1 : span.keys;
            for (int64_t k = 0; k < keys; ++k) {
              seen.emplace(mine[static_cast<size_t>(span.query + q)], theirs[static_cast<size_t>(span.key + k)]);
            }
          }
        }
      }
    }
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      for (int64_t q = starts[s]; q < starts[s + 1]; ++q) {
        for (int64_t k = starts[s]; k <= q; ++k) expected.emplace(q, k);
      }
    }
    EXPECT_EQ(seen, expected) << ranks << " ranks";
  }
}

// A long sequence costs one rank as much as another, round by round.
TEST(Ring, EveryRankComputesAsMuchInEveryRound) {
  constexpr int64_t kRanks = 8, kLength = 8000;
  const Zigzag zigzag(std::vector<int64_t>{0, kLength}, kRanks);
  for (int64_t round = 1; round < kRanks; ++round) {
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      const Zigzag::Span span = zigzag.spans(rank, (rank + kRanks - round) % kRanks).front();
      EXPECT_EQ(span.queries * span.keys, kLength / kRanks * (kLength / kRanks) / 2) << rank << " in " << round;
    }
  }
}

TEST(Ring, WhatGoesRoundIsSeenByAllAndItsSumsComeBack) {
  for (const int64_t ranks : {2, 3, 4}) {
    parallel::run_ranks({.cp = ranks, .timeout_s = 60}, [&](parallel::World& world) {
      parallel::Group& ring = *world.groups().cp;
      const auto of = [](int64_t rank) { return at::full({3, 2}, static_cast<double>(rank)); };
      RingBuffers kv{of(ring.rank()), at::empty({3, 2})}, sums{at::empty({3, 2}), at::empty({3, 2})};
      std::vector<int64_t> seen;
      around_ring(ring, kv, [&](int64_t from, const at::Tensor& here) {
        seen.push_back(from);
        EXPECT_TRUE(at::equal(here, of(from)));
      });
      EXPECT_EQ(seen.front(), ring.rank());
      EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), static_cast<size_t>(ranks));
      kv[0].copy_(of(ring.rank()));
      const at::Tensor made = at::empty({3, 2}),
                       sum = around_ring(ring, kv, sums, made, [&](int64_t from, const at::Tensor& here) {
                         EXPECT_TRUE(at::equal(here, of(from)));
                         made.fill_(static_cast<double>(100 * from + ring.rank() + 1));
                       });
      const double expected = static_cast<double>(100 * ranks * ring.rank() + ranks * (ranks + 1) / 2);
      EXPECT_TRUE(at::equal(sum, at::full({3, 2}, expected))) << ring.rank();
    });
  }
}

// A rank that does not come to its round: who waits for it is named, with what for, and the step.
TEST(Ring, ARoundThatHangsNamesRankCollectiveAndStep) {
  parallel::Failures failures;
  parallel::WorldOptions options;
  options.beat_s = 0.05;
  parallel::run_ranks(
      {.cp = 2, .timeout_s = 1},
      [&](parallel::World& world) {
        world.recorder().at("step 7");
        if (world.rank() == 0) {
          const RingBuffers kv{at::zeros({4, 2}), at::empty({4, 2})};
          EXPECT_THROW(around_ring(*world.groups().cp, kv, [](int64_t, const at::Tensor&) {}), Error);
        }
        failures.wait_for(2);  // rank 1 never comes to it
      },
      &failures, options);
  using testing::HasSubstr;
  EXPECT_THAT(failures.wait_for(2),
              testing::Each(testing::AllOf(HasSubstr("rank 0: a collective does not end"), HasSubstr("step 7, shift"),
                                           HasSubstr("'keys and values' of cp.tp0"), HasSubstr("rank 1 was at"))));
}

}  // namespace
}  // namespace tritonforge::train
