#include "router/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::router {
namespace {

using ::testing::ElementsAre;

TEST(Registry, GreenOnesBeforeYellowOnesAndNoneTwice) {
  Registry registry({.failures = 2});
  const auto green = registry.add("http://127.0.0.1:1"), yellow = registry.add("http://127.0.0.1:2"),
             red = registry.add("http://127.0.0.1:3");
  green->healthy();
  red->unhealthy("gone");
  red->unhealthy("gone");
  EXPECT_THAT(registry.usable(), ElementsAre(green));
  EXPECT_THAT(registry.usable({green}), ElementsAre(yellow));
  EXPECT_TRUE(registry.usable({green, yellow}).empty());
}

TEST(Registry, AWorkerOverTlsIsNotTheOneWithout) {
  Registry registry({.failures = 2});
  const auto plain = registry.add("127.0.0.1:1");
  EXPECT_EQ(registry.add("http://127.0.0.1:1/"), plain);
  const auto tls = registry.add("https://127.0.0.1:1/");
  EXPECT_EQ(tls->url(), "https://127.0.0.1:1");
  EXPECT_THAT(registry.all(), ElementsAre(plain, tls));
}

}  // namespace
}  // namespace tritonforge::router
