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

std::string nested(int levels, const std::string& core = "") {
  return std::string(static_cast<size_t>(levels), '[') + core + std::string(static_cast<size_t>(levels), ']');
}

TEST(ParseJson, ANumberThatNoDoubleHoldsIsRefused) {
  EXPECT_TRUE(parse_json_or_discard("[1e999]").is_discarded());
  for (const bool ordered : {false, true}) {
    try {
      ordered ? (void)parse_ordered_json("[1e999]", "POST /x") : (void)parse_json("[1e999]", "POST /x");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_STREQ(error.what(), "POST /x: the JSON has a number that no double holds");
    }
  }
}

TEST(ParseJson, DepthIsBounded) {
  EXPECT_FALSE(parse_json_or_discard(nested(kMaxJsonDepth)).is_discarded());
  EXPECT_TRUE(parse_json_or_discard(nested(kMaxJsonDepth + 1)).is_discarded());
  EXPECT_TRUE(parse_json_or_discard(nested(2'000'000)).is_discarded());
  EXPECT_FALSE(parse_json_or_discard(nested(kMaxJsonDepth, R"("[[[{{{\"[[[")")).is_discarded()) << "texts nest nothing";
  for (const bool ordered : {false, true}) {
    try {
      ordered ? (void)parse_ordered_json(nested(2'000'000), "POST /x") : (void)parse_json(nested(2'000'000), "POST /x");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_STREQ(error.what(), "POST /x: nested deeper than 128 levels");
    }
  }
}

}  // namespace
}  // namespace tritonforge
