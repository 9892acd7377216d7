#include "router/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge::router {
namespace {

using ::testing::HasSubstr;

TEST(Policy, UnknownNameNamesTheNearest) {
  try {
    make_policy("least_load");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'least_loaded'?"));
  }
}

TEST(Policy, TokensBreakTies) {
  auto a = std::make_shared<Worker>("http://a", 3), b = std::make_shared<Worker>("http://b", 3);
  a->begin(1000);
  b->begin(10);
  const auto policy = make_least_loaded();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(policy->pick({a, b}, {}), b);
}

TEST(Policy, ForgottenSessionsDoNotGrowWithoutEnd) {
  auto a = std::make_shared<Worker>("http://a", 3), b = std::make_shared<Worker>("http://b", 3);
  const auto policy = make_session_sticky(make_round_robin(), 2);
  const auto first = policy->pick({a, b}, {.session = "1"});
  policy->pick({a, b}, {.session = "2"});
  EXPECT_EQ(policy->pick({a, b}, {.session = "1"}), first);  // now the younger one
  policy->pick({a, b}, {.session = "3"});                    // "2" is forgotten
  EXPECT_EQ(policy->pick({a, b}, {.session = "1"}), first);
  policy->pick({a, b}, {});  // the next turn is a's
  EXPECT_EQ(policy->pick({a, b}, {.session = "2"}), a);
}

}  // namespace
}  // namespace tritonforge::router
