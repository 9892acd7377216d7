#include "orchestrate/group_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::orchestrate {
namespace {

using ::testing::HasSubstr;

TEST(GroupSchedule, WithoutOverSamplingAStepHasItsOwnGroupsAndStalenessStepsMoreAreUnderWay) {
  const GroupSchedule synchronous(3, 4, 0, 0), ahead(5, 4, 2, 0);
  EXPECT_FALSE(synchronous.over_samples());
  EXPECT_EQ(synchronous.submitted(1), 4);
  EXPECT_EQ(synchronous.unfinished(3), (GroupRange{8, 12}));
  EXPECT_EQ(ahead.submitted(1), 12);
  EXPECT_EQ(ahead.submitted(5), 20);  // the run has no more
  EXPECT_EQ(ahead.unfinished(2), (GroupRange{4, 16}));
}

TEST(GroupSchedule, OverSamplingNeedsStalenessForWhatIsAheadAndForWhatIsLate) {
  const auto refusal = [](int64_t staleness, double over) -> std::string {
    try {
      GroupSchedule(10, 8, staleness, over);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal(2, 1.0), HasSubstr("above 1, or 0"));
  EXPECT_THAT(refusal(1, 1.5), HasSubstr("rl.max_staleness must be 2 or more, not 1"));
  EXPECT_THAT(refusal(2, 2.5), HasSubstr("rl.max_staleness must be 3 or more, not 2"));
  EXPECT_EQ(refusal(2, 1.5), "none");
  EXPECT_EQ(refusal(2, 2.0), "none");
  const GroupSchedule schedule(10, 8, 2, 1.5);
  EXPECT_TRUE(schedule.over_samples());
  EXPECT_EQ(schedule.submitted(1), 12);
  EXPECT_EQ(schedule.due(1), (GroupRange{0, 0}));
  EXPECT_EQ(schedule.due(2), (GroupRange{0, 8}));  // step 1's own, one step late
  EXPECT_EQ(schedule.unfinished(3), (GroupRange{8, 28}));
}

// Whatever is complete first: each step has as many groups as it wants, each group is in one step, none is waited for
// beyond what is due, and none is older than max_staleness.
TEST(GroupSchedule, AnyOrderOfCompletionTrainsEachGroupOnceAndInTime) {
  Rng rng(5);
  for (const int64_t staleness : {2, 3, 5}) {
    for (const double over : {1.1, 1.5, 2.0, 3.0, 4.0}) {
      constexpr int64_t kSteps = 23, kEach = 6;
      if (over - 1 > static_cast<double>(staleness - 1)) continue;
      const GroupSchedule schedule(kSteps, kEach, staleness, over);
      std::vector<int64_t> submitted_in(kSteps * kEach, 0), taken_in(kSteps * kEach, 0);
      int64_t submitted = 0, late = 0;
      for (int64_t step = 1; step <= kSteps; ++step) {
        for (; submitted < schedule.submitted(step); ++submitted) submitted_in[static_cast<size_t>(submitted)] = step;
        EXPECT_LE(submitted - (step - 1) * kEach, static_cast<int64_t>(over * kEach + 1));
        std::vector<size_t> pool;
        for (int64_t i = 0; i < submitted; ++i)
          if (taken_in[static_cast<size_t>(i)] == 0) pool.push_back(static_cast<size_t>(i));
        ASSERT_GE(pool.size(), static_cast<size_t>(kEach));
        rng.shuffle(pool);
        const GroupRange due = schedule.due(step);
        std::ranges::stable_partition(
            pool, [&](size_t i) { return static_cast<int64_t>(i) >= due.begin && static_cast<int64_t>(i) < due.end; });
        ASSERT_LE(std::ranges::count_if(pool, [&](size_t i) { return static_cast<int64_t>(i) < due.end; }), kEach);
        for (int64_t n = 0; n < kEach; ++n) taken_in[pool[static_cast<size_t>(n)]] = step;
        // What a run that goes on with this step would submit is all that is left.
        const GroupRange left = schedule.unfinished(step);
        EXPECT_TRUE(std::ranges::all_of(pool, [&](size_t i) {
          return static_cast<int64_t>(i) >= left.begin && static_cast<int64_t>(i) < left.end;
        }));
      }
      for (size_t i = 0; i < taken_in.size(); ++i) {
        ASSERT_GT(taken_in[i], 0);
        EXPECT_LE(taken_in[i] - submitted_in[i], staleness) << over << " " << i;
        late += taken_in[i] > static_cast<int64_t>(i) / kEach + 1;
      }
      EXPECT_GT(late, 0);
    }
  }
}

}  // namespace
}  // namespace tritonforge::orchestrate
