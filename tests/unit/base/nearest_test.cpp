#include "base/nearest.h"

#include <gtest/gtest.h>

namespace tritonforge {
namespace {

TEST(NearestPath, IsOfTheFirstPartThatIsNotThere) {
  const TemporaryFolder folder("fs-test");
  fs::create_directories(folder.path() / "problems" / "level1");
  fs::create_directories(folder.path() / "models");
  EXPECT_EQ(nearest_path_hint(folder.path() / "problms" / "level9"), " (did you mean 'problems'?)");
  EXPECT_EQ(nearest_path_hint(folder.path() / "problems" / "levle1"), " (did you mean 'level1'?)");
  EXPECT_EQ(nearest_path_hint(folder.path() / "something-else"), "") << "no list of whatever lies there";
  EXPECT_EQ(nearest_path_hint(folder.path() / "models"), "");
  write_file_atomic(folder.path() / "models" / "file", "x");
  EXPECT_EQ(nearest_path_hint(folder.path() / "models" / "file" / "below"), "");
}

}  // namespace
}  // namespace tritonforge
