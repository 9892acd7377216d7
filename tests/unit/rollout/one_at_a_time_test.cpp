#include "rollout/one_at_a_time.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tritonforge::rollout {
namespace {

TEST(OneAtATime, WhatIsAskedForWhileItIsDoneIsDoneOnceMore) {
  OneAtATime once;
  int done = 0;
  once.run([&] {
    if (++done > 2) return;
    const std::function<void()> never = [] { FAIL() << "two are at it"; };
    // At its end, behind every look of the work: whoever asks is gone before it returns, and did not wait for it.
    std::thread([&] { once.run(never); }).join();
  });
  EXPECT_EQ(done, 3);
  once.run([&] { ++done; });
  EXPECT_EQ(done, 4);
}

TEST(OneAtATime, NothingThatManyThreadsChangeIsLeftUnseen) {
  OneAtATime once;
  std::atomic<int> changes{0};
  int seen = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        ++changes;
        once.run([&] { seen = changes; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, 4000);
}

}  // namespace
}  // namespace tritonforge::rollout
