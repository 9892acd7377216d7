#include "train/publish.h"

#include <gtest/gtest.h>

#include "base/filesystem.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

TEST(Publisher, AFolderKeepsTheNewestVersionAndWhatOthersPutThere) {
  const TemporaryFolder folder("publish_test");
  const auto write = [](const fs::path& at) {
    fs::create_directories(at);
    return TensorChecksums();
  };
  fs::create_directories(folder.path() / "version-of-friday");
  fs::create_directories(folder.path() / "version-00000001-best");
  Publisher publisher("publish_test");
  for (const int64_t version : {1, 2}) publisher.to_folder(version, folder.path(), write);
  EXPECT_FALSE(fs::exists(folder.path() / "version-00000001"));
  for (const char* name : {"version-00000002", "version-of-friday", "version-00000001-best"})
    EXPECT_TRUE(fs::exists(folder.path() / name)) << name;
}

}  // namespace
}  // namespace tritonforge::train
