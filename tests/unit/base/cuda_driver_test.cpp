#include "base/cuda_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge {
namespace {

TEST(VisibleDevices, AreCountedAmongThoseThatAreShown) {
  EXPECT_EQ(visible_devices({"cuda:1"}, nullptr), "1");
  EXPECT_EQ(visible_devices({"cuda"}, nullptr), "0");
  EXPECT_EQ(visible_devices({"cuda:1"}, "2,3"), "3");
  EXPECT_EQ(visible_devices({"cuda:0"}, "6"), "6");  // a role of a placement
  EXPECT_EQ(visible_devices({"cuda:1", "cuda:0"}, "GPU-a,GPU-b"), "GPU-b,GPU-a");
  EXPECT_EQ(visible_devices({"GPU-c"}, "2,3"), "GPU-c");
}

TEST(VisibleDevices, OneThatIsNotShownIsRefused) {
  for (const char* shown : {"5", "", "5,-1,6"}) {
    try {
      visible_devices({"cuda:1"}, shown);
      ADD_FAILURE() << shown;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr(fmt::format("cuda:1 is not among those that CUDA_VISIBLE_DEVICES={}", shown)));
    }
  }
}

}  // namespace
}  // namespace tritonforge
