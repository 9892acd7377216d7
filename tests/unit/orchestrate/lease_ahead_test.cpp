#include "orchestrate/lease_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/error.h"

namespace tritonforge::orchestrate {
namespace {

Lease named(const std::string& id) {
  Lease lease;
  lease.id = id;
  return lease;
}

// Groups that never come: only who does not want them any more ends it.
LeaseAhead::Wait forever(std::atomic<int>& ended) {
  return [&ended](const std::function<void()>& check) -> Lease {
    try {
      while (true) {
        check();
        std::this_thread::yield();
      }
    } catch (...) {
      ++ended;
      throw;
    }
  };
}

TEST(LeaseAhead, IsGivenToTheStepThatItIsOf) {
  LeaseAhead ahead;
  EXPECT_FALSE(ahead.take(1));
  ahead.begin(2, [](const std::function<void()>& check) {
    check();
    return named("rl-step-2");
  });
  EXPECT_EQ(ahead.take(2)->id, "rl-step-2");
  EXPECT_FALSE(ahead.take(2));
  ahead.begin(3, [](const std::function<void()>&) -> Lease { throw Error(ErrorKind::kConflict, "another has it"); });
  EXPECT_THROW(ahead.take(3), Error);
}

// With over-sampling of 1.5 half of a step's groups are submitted once the step before is trained: in one that takes
// longer than supervisor.stalled_after_s, no trajectory ends, and nothing is wrong.
TEST(LeaseAhead, WhatTheStepBeforeHeldUpIsAskedForAnew) {
  LeaseAhead ahead;
  ahead.begin(3,
              [](const std::function<void()>&) -> Lease { throw Error(ErrorKind::kTimeout, "no trajectory ended"); });
  EXPECT_FALSE(ahead.take(3));
  EXPECT_FALSE(ahead.take(3));
}

// An error of step 1 leaves the loop, which ends what it has begun ahead.
TEST(LeaseAhead, AnErrorOfTheStepBeforeIsNotHeldUpByIt) {
  std::atomic<int> ended{0};
  try {
    LeaseAhead ahead;
    ahead.begin(2, forever(ended));
    throw Error(ErrorKind::kInternal, "step 1: CUDA out of memory");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("step 1"));
  }
  EXPECT_EQ(ended, 1);
}

TEST(LeaseAhead, OfAStepThatATrainerWentBackBehindIsGivenUp) {
  std::atomic<int> ended{0};
  LeaseAhead ahead;
  ahead.begin(5, forever(ended));
  EXPECT_FALSE(ahead.take(3));
  EXPECT_EQ(ended, 1);
  ahead.begin(4, forever(ended));
  ahead.begin(4, [](const std::function<void()>&) { return named("again"); });
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(ahead.take(4)->id, "again");
}

}  // namespace
}  // namespace tritonforge::orchestrate
