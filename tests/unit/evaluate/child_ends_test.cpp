#include "evaluate/child_ends.h"

#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

TEST(ChildEnds, APidThatIsUsedAgainHasNoEndYet) {
  ChildEnds ends;
  ends.ended(7, 9);
  EXPECT_EQ(ends.of(7), 9);
  ends.begun(7);
  EXPECT_EQ(ends.of(7), std::nullopt);
  ends.ended(7, 0);
  EXPECT_EQ(ends.of(7), 0);
}

TEST(ChildEnds, TheOldestAreForgottenWhateverTheirPids) {
  ChildEnds ends;
  for (pid_t pid = 5000; pid < 5000 + static_cast<pid_t>(ChildEnds::kMost); ++pid) ends.ended(pid, 1);
  ends.ended(2, 3);  // pids have begun again
  EXPECT_EQ(ends.of(2), 3);
  EXPECT_EQ(ends.of(5000), std::nullopt);
  EXPECT_EQ(ends.of(5001), 1);
}

}  // namespace
}  // namespace tritonforge::evaluate
