#include "base/clock.h"

#include <gtest/gtest.h>

namespace tritonforge {
namespace {

TEST(Deadline, OneBeyondWhatTheClockCountsIsNotInThePast) {
  for (const double seconds : {1e10, 1e18, 1e300}) {
    EXPECT_FALSE(Deadline::after(seconds).expired()) << seconds;
    EXPECT_GT(Deadline::after(seconds).remaining_s(), 1e8) << seconds;
  }
}

}  // namespace
}  // namespace tritonforge
