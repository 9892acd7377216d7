#include "evaluate/spent.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tritonforge::evaluate {
namespace {

void pass(double seconds) {
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) continue;
}

TEST(SpentTest, TimeIsThatOfTheInnermostRangeAndGoesBackBehindIt) {
  const auto start = Clock::now();
  Spent spent;
  {
    const Spent::Range outer(&spent, Part::kReplaying);
    pass(0.02);
    {
      const Spent::Range inner(&spent, Part::kTurn);
      pass(0.06);
    }
    pass(0.02);
  }
  const auto seconds = spent.seconds();
  const double all = seconds_since(start);
  EXPECT_GE(seconds.at("turn"), 0.06);
  EXPECT_GE(seconds.at("replaying"), 0.04);
  EXPECT_FALSE(seconds.contains("timing"));
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0,
                                     [](double before, const auto& part) { return before + part.second; });
  EXPECT_LE(sum, all);
  EXPECT_GE(sum, 0.1);
  const Spent::Range nobodys(nullptr, Part::kTurn);
}

}  // namespace
}  // namespace tritonforge::evaluate
