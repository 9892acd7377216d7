#include "train/step_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace tritonforge::train {
namespace {

TEST(StepClock, EveryPartHasItsSeconds) {
  StepClock clock(at::kCPU);
  const auto started = Clock::now();
  clock.begin(StepPart::kPack);
  for (int i = 0; i < 3; ++i) {
    clock.begin(StepPart::kForward, "micro-batch");
    const auto begin = Clock::now();
    while (seconds_since(begin) < 0.002) std::this_thread::yield();
    clock.begin(StepPart::kBackward, "micro-batch");
  }
  const PartSeconds seconds = clock.end();
  const double whole = seconds_since(started);
  EXPECT_GE(seconds[static_cast<size_t>(StepPart::kForward)], 0.006);
  EXPECT_EQ(seconds[static_cast<size_t>(StepPart::kUpdate)], 0);
  double sum = 0;
  for (const double part : seconds) sum += part;
  EXPECT_LE(sum, whole);
}

TEST(StepClock, SaysWhereAStepStandsAndForHowLong) {
  StepClock clock(at::kCPU);
  EXPECT_FALSE(clock.standing());
  clock.begin(StepPart::kForward, "micro-batch 1 of 2");
  EXPECT_EQ(clock.standing()->part, "forward of micro-batch 1 of 2");
  while (clock.standing()->seconds < 0.002) std::this_thread::yield();
  clock.begin(StepPart::kBackward, "micro-batch 1 of 2");
  EXPECT_EQ(clock.standing()->seconds, 0) << "it moved on";
  EXPECT_EQ(clock.standing()->part, "backward of micro-batch 1 of 2");
  clock.end();
  EXPECT_FALSE(clock.standing());
  clock.begin(StepPart::kBackward);
  EXPECT_EQ(clock.standing()->seconds, 0) << "the same part of another step";
  clock.abandon();
  EXPECT_FALSE(clock.standing());
}

}  // namespace
}  // namespace tritonforge::train
