#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge {
namespace {

TEST(NearestHint, NamesTheNearestOrListsWhatIsKnown) {
  EXPECT_EQ(nearest_hint("learning_rat", {"learning_rate", "batch"}), " (did you mean 'learning_rate'?)");
  EXPECT_EQ(nearest_hint("xyzxyzxyz", {"lr", "steps"}), " (known: lr, steps)");
  EXPECT_EQ(nearest_hint("x", {}), "");
  std::vector<std::string> many;
  for (int i = 0; i < 20; ++i) many.push_back("a_rather_long_name_" + std::to_string(i));
  EXPECT_THAT(nearest_hint("?", many), ::testing::HasSubstr("a_rather_long_name_11, ...)"));
}

TEST(ErrorKinds, HaveTheirExitCodeAndStatus) {
  EXPECT_EQ(exit_code(ErrorKind::kUsage), 2);
  EXPECT_EQ(exit_code(ErrorKind::kNotFound), 2);
  EXPECT_EQ(exit_code(ErrorKind::kMachine), 3);
  EXPECT_EQ(exit_code(ErrorKind::kTimeout), 1);
  EXPECT_EQ(http_status(ErrorKind::kUsage), 400);
  EXPECT_EQ(http_status(ErrorKind::kTimeout), 504);
  EXPECT_EQ(http_status(ErrorKind::kConflict), 409);
  EXPECT_EQ(http_status(ErrorKind::kBusy), 429);
  EXPECT_EQ(exit_code(ErrorKind::kConflict), 1);
  EXPECT_EQ(name_of(ErrorKind::kConflict), "conflict");
  EXPECT_EQ(name_of(ErrorKind::kBusy), "busy");
  EXPECT_EQ(name_of(ErrorKind::kUnsupported), "unsupported");
}

TEST(ResultTest, HoldsAValueOrThrowsItsError) {
  Result<int> good(5), bad(Error(ErrorKind::kUnavailable, "peer is down"));
  EXPECT_EQ(*good, 5);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THROW(bad.value(), Error);
}

TEST(Check, NamesPlaceExpressionAndMessage) {
  const int ranks = 3;
  try {
    TF_CHECK(ranks % 2 == 0, "{} ranks do not pair", ranks);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("error_test.cpp"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("3 ranks do not pair [ranks % 2 == 0]"));
  }
}

}  // namespace
}  // namespace tritonforge
