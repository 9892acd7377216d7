#include "evaluate/measuring_turns.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace tritonforge::evaluate {
namespace {

std::string device(const std::string& name) { return fmt::format("test-{}-{}", name, ::getpid()); }

bool is_free(const std::string& name) {
  try {
    DeviceLock(name).shared(Deadline::after(0));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(MeasuringTurns, OneAtATimeAndTheDeviceIsFreeAfterTheLast) {
  MeasuringTurns turns(device("one"));
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        const auto turn = turns.take(Deadline::after(60));
        most = std::max(most.load(), ++inside);
        EXPECT_FALSE(is_free(device("one")));
        --inside;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_TRUE(is_free(device("one")));
}

TEST(MeasuringTurns, WhoeverComputesGetsTheDeviceThoughSomebodyAlwaysWaitsToMeasure) {
  MeasuringTurns turns(device("row"));
  std::atomic<bool> computed = false;
  std::vector<std::thread> threads;
  for (int k = 0; k < 3; ++k) {
    threads.emplace_back([&] {
      while (!computed) const auto turn = turns.take(Deadline::after(60));
    });
  }
  { const auto hold = DeviceLock(device("row")).shared(Deadline::after(60)); }
  computed = true;
  for (auto& thread : threads) thread.join();
}

TEST(MeasuringTurns, ATurnThatDoesNotComeInTimeIsToldAndTheNextOneIsGiven) {
  MeasuringTurns turns(device("late"));
  {
    const auto turn = turns.take(Deadline::after(60));
    EXPECT_THROW(turns.take(Deadline::after(0)), Error);
  }
  {
    DeviceLock other(device("late"));
    const auto hold = other.shared();
    EXPECT_THROW(turns.take(Deadline::after(0)), Error);  // the device is another's
  }
  turns.take(Deadline::after(60));
}

}  // namespace
}  // namespace tritonforge::evaluate
