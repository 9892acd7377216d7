#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::engine {
namespace {

std::vector<int64_t> tokens_of(uint64_t seed, int64_t n, int64_t vocab = 3) {
  Rng rng(seed);
  std::vector<int64_t> tokens(static_cast<size_t>(n));
  for (auto& token : tokens) token = static_cast<int64_t>(rng.below(vocab));
  return tokens;
}

TEST(BlockPool, SharesAPublishedPrefix) {
  BlockPool pool(10, 4, true);
  const std::vector<int64_t> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const int32_t first = pool.allocate(), second = pool.allocate();
  const uint64_t tip = pool.publish(pool.root(), std::span(prompt).subspan(0, 4), first);
  pool.publish(tip, std::span(prompt).subspan(4, 4), second);
  EXPECT_EQ(pool.match(prompt, 2).blocks, (std::vector<int32_t>{first, second}));
  EXPECT_EQ(pool.match(prompt, 1).blocks, (std::vector<int32_t>{first}));
  auto other = prompt;
  other[5] = 0;
  EXPECT_EQ(pool.match(other, 2).blocks, (std::vector<int32_t>{first}));
  other[0] = 0;  // the second block alone is not a prefix
  EXPECT_TRUE(pool.match(std::span(prompt).subspan(4), 1).blocks.empty());
  pool.check();
}

TEST(BlockPool, NewWeightsFindNothingOld) {
  BlockPool pool(10, 2, true);
  const std::vector<int64_t> prompt{1, 2};
  const int32_t block = pool.allocate();
  pool.publish(pool.root(), prompt, block);
  const uint64_t old_root = pool.root();
  pool.invalidate_prefixes();
  EXPECT_TRUE(pool.match(prompt, 1).blocks.empty());
  EXPECT_NE(pool.root(), old_root);
  pool.release(block);
  EXPECT_EQ(pool.available(), pool.capacity());
  pool.check();
}

TEST(BlockPool, IdlePrefixesAreForgottenOldestFirst) {
  BlockPool pool(4, 1, true);
  for (int64_t token = 0; token < 3; ++token) {
    const int32_t block = pool.allocate();
    pool.publish(pool.root(), std::vector<int64_t>{token}, block);
    pool.release(block);
  }
  EXPECT_EQ(pool.available(), 3);
  const int32_t taken = pool.allocate();
  EXPECT_TRUE(pool.match(std::vector<int64_t>{0}, 1).blocks.empty());
  EXPECT_EQ(pool.match(std::vector<int64_t>{1}, 1).blocks.size(), 1u);
  pool.release(taken);
  pool.check();
}

TEST(BlockPool, ReleasingOnceTooOftenIsCaught) {
  BlockPool pool(3, 1, true);
  const int32_t block = pool.allocate();
  pool.release(block);
  EXPECT_THROW(pool.release(block), Error);
}

// Publishes `token` alone, as a block of its own.
int32_t published(BlockPool& pool, int64_t token) {
  const int32_t block = pool.allocate();
  pool.publish(pool.root(), std::vector{token}, block);
  return block;
}

BlockPool::Prefix found(BlockPool& pool, int64_t token) { return pool.match(std::vector{token}, 1); }

TEST(BlockPool, WhatIsAwaitedLeavesForTheHostAndComesBack) {
  BlockPool pool(4, 1, true, 2);
  const int32_t awaited = published(pool, 1);
  pool.release(awaited, /*awaited=*/true);
  const int32_t idle = published(pool, 2);
  pool.release(idle);
  pool.allocate();
  EXPECT_EQ(pool.allocate(), idle) << "what nobody waits for goes first, be it newer";
  EXPECT_TRUE(pool.take_moves().empty());
  EXPECT_EQ(pool.allocate(), awaited);
  const auto sent = pool.take_moves();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].to_host);
  EXPECT_EQ(sent[0].block, awaited);
  pool.check();
  EXPECT_TRUE(found(pool, 2).blocks.empty());

  const auto prefix = found(pool, 1);
  EXPECT_EQ(prefix.away, 1);
  pool.release(idle);
  EXPECT_EQ(pool.bring_back(prefix), std::vector{idle});
  const auto back = pool.take_moves();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_FALSE(back[0].to_host);
  EXPECT_EQ(back[0].block, idle);
  EXPECT_EQ(back[0].place, sent[0].place);
  EXPECT_EQ(found(pool, 1).away, 0);
  EXPECT_EQ(pool.on_host(), 0);
  pool.check();
}

TEST(BlockPool, AFullHostForgetsWhatIsAwayForLongest) {
  BlockPool pool(4, 1, true, 2);
  for (int64_t token = 0; token < 3; ++token) pool.release(published(pool, token), /*awaited=*/true);
  for (int i = 0; i < 3; ++i) pool.allocate();
  EXPECT_EQ(pool.on_host(), 2);
  EXPECT_TRUE(found(pool, 0).blocks.empty());
  EXPECT_EQ(found(pool, 1).away, 1);
  EXPECT_EQ(found(pool, 2).away, 1);
  pool.check();
  pool.invalidate_prefixes();
  EXPECT_EQ(pool.on_host(), 0);
  EXPECT_TRUE(found(pool, 2).blocks.empty());
  pool.check();
}

// Places that are about to be emptied are no places for what has to leave meanwhile.
TEST(BlockPool, WhatComesBackIsNotForgottenForWhatLeavesForIt) {
  BlockPool pool(2, 1, true, 1);
  pool.release(published(pool, 1), /*awaited=*/true);
  pool.release(published(pool, 2), /*awaited=*/true);  // in the place of the other, which is on the host
  pool.take_moves();
  EXPECT_EQ(pool.bring_back(found(pool, 1)).size(), 1u);
  const auto moves = pool.take_moves();
  ASSERT_EQ(moves.size(), 1u);
  EXPECT_FALSE(moves[0].to_host);
  EXPECT_TRUE(found(pool, 2).blocks.empty());
  pool.check();
}

// Random sequences that grow, share, publish and go, against a plain model: the contents of published blocks, in the
// pool and on the host.
TEST(BlockPool, NeverLeaksAndNeverMixesContents) {
  int64_t came_back = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    BlockPool pool(24, 2, true, static_cast<int64_t>(seed % 3) * 8);
    struct Held {
      std::vector<int64_t> tokens;
      std::vector<int32_t> blocks;
      uint64_t tip;
      size_t epoch;
    };
    std::vector<Held> held;
    using Content = std::pair<size_t, std::vector<int64_t>>;  // epoch, tokens up to its end
    std::map<int32_t, Content> content, host;                 // by block, by place
    size_t epoch = 0;
    const auto move = [&] {
      for (const BlockMove& due : pool.take_moves()) {
        if (due.to_host) host[due.place] = content.at(due.block);
        else content[due.block] = host.at(due.place);
        came_back += !due.to_host;
      }
    };
    for (int step = 0; step < 2000; ++step) {
      const uint64_t what = rng.below(100);
      if (what < 50 && pool.available() > 0) {
        Held sequence{tokens_of(rng.below(6), 2 + static_cast<int64_t>(rng.below(8))), {}, 0, epoch};
        const auto prefix = pool.match(sequence.tokens, static_cast<int64_t>(sequence.tokens.size()) / 2);
        if (pool.available() < prefix.away) {
          pool.let_go(prefix);
          ASSERT_NO_THROW(pool.check());
          continue;
        }
        sequence.blocks = pool.bring_back(prefix);
        move();
        sequence.tip = prefix.tip;
        for (size_t i = 0; i < sequence.blocks.size(); ++i) {
          const std::vector<int64_t> expected(sequence.tokens.begin(),
                                              sequence.tokens.begin() + static_cast<long>(2 * (i + 1)));
          ASSERT_EQ(content.at(sequence.blocks[i]), std::make_pair(epoch, expected));
        }
        while (sequence.blocks.size() < sequence.tokens.size() / 2 && pool.available() > 0) {
          const int32_t block = pool.allocate();
          move();
          const size_t at = sequence.blocks.size();
          sequence.blocks.push_back(block);
          sequence.tip = pool.publish(sequence.tip, std::span(sequence.tokens).subspan(at * 2, 2), block);
          content[block] = {epoch,
                            {sequence.tokens.begin(), sequence.tokens.begin() + static_cast<long>(2 * (at + 1))}};
        }
        held.push_back(std::move(sequence));
      } else if (what < 98 && !held.empty()) {
        const size_t victim = rng.below(held.size());
        const bool awaited = rng.below(2) == 0;
        for (auto block = held[victim].blocks.rbegin(); block != held[victim].blocks.rend(); ++block)
          pool.release(*block, awaited);
        held.erase(held.begin() + static_cast<long>(victim));
      } else if (what >= 98) {
        pool.invalidate_prefixes();
        ++epoch;
      }
      ASSERT_NO_THROW(pool.check());
    }
    for (const Held& sequence : held) {
      for (const int32_t block : sequence.blocks) pool.release(block);
    }
    pool.check();
    EXPECT_EQ(pool.available(), pool.capacity());
  }
  EXPECT_GT(came_back, 50);
}

}  // namespace
}  // namespace tritonforge::engine
