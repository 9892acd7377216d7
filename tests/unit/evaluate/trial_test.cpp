#include "evaluate/trial.h"

#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

// A verdict goes into JSON, whatever language a candidate's error is in.
TEST(Clipped, ACutIsNeverWithinALetter) {
  EXPECT_EQ(clipped("aéb", 9), "aéb");
  EXPECT_EQ(clipped("aéb", 3), "aé...");
  EXPECT_EQ(clipped("aéb", 2), "a...");
}

}  // namespace
}  // namespace tritonforge::evaluate
