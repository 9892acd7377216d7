#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge {
namespace {

using ::testing::HasSubstr;

std::string said_of(const Json& object) {
  try {
    check_keys(object, {"seed", "candidate"}, "POST /x");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(CheckKeys, NamesPlaceFieldAndTheNearest) {
  EXPECT_EQ(said_of({{"seed", 1}}), "");
  EXPECT_EQ(said_of(Json::object()), "");
  EXPECT_EQ(said_of({{"sed", 1}}), "POST /x: unknown field 'sed' (did you mean 'seed'?)");
  EXPECT_THAT(said_of(Json::array()), HasSubstr("POST /x: expected an object, found array"));
}

}  // namespace
}  // namespace tritonforge
