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

template <typename T>
std::string refusal_of(const char* value) {
  try {
    require<T>(parse_json(fmt::format("{{\"seed\": {}}}", value), "POST /x"), "seed", "POST /x");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(RequireField, AnIntegerIsNeitherCutNorWrapped) {
  EXPECT_EQ(refusal_of<int>("1.5"), "POST /x: field 'seed' must be an integer, not 1.5");
  EXPECT_EQ(refusal_of<int64_t>("-0.5"), "POST /x: field 'seed' must be an integer, not -0.5");
  EXPECT_EQ(refusal_of<int>("true"), "POST /x: field 'seed' must be an integer, not true");
  EXPECT_EQ(refusal_of<int>("\"1\""), "POST /x: field 'seed' must be an integer, not \"1\"");
  EXPECT_EQ(refusal_of<int>("null"), "POST /x: field 'seed' must be an integer, not null");
  EXPECT_EQ(refusal_of<int>("3000000000"),
            "POST /x: field 'seed' must be between -2147483648 and 2147483647, not 3000000000");
  EXPECT_EQ(refusal_of<uint64_t>("-1"), "POST /x: field 'seed' must be between 0 and 18446744073709551615, not -1");
  EXPECT_THAT(refusal_of<int64_t>("9223372036854775808"), HasSubstr("must be between"));
  EXPECT_THAT(refusal_of<int64_t>("1e300"), HasSubstr("must be between"));
  EXPECT_THAT(refusal_of<std::vector<int64_t>>("[1, 2.5]"), HasSubstr("field 'seed' has the wrong type: [1,2.5]"));
  EXPECT_THAT(refusal_of<std::vector<std::vector<int64_t>>>("[[1], [true]]"), HasSubstr("has the wrong type"));
}

TEST(RequireField, AWholeNumberMayBeWrittenWithAPoint) {
  const Json body = parse_json(R"({"a": 2.0, "b": -3e2, "c": [1, 2.0], "d": 1.8446744073709550e19, "e": -0.0})", "x");
  EXPECT_EQ(require<int>(body, "a", "x"), 2);
  EXPECT_EQ(require<int64_t>(body, "b", "x"), -300);
  EXPECT_EQ(require<std::vector<int64_t>>(body, "c", "x"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(require<uint64_t>(body, "d", "x"), 18446744073709549568u);
  EXPECT_EQ(require<int>(body, "e", "x"), 0);
  EXPECT_EQ(optional_field<int64_t>(body, "missing", 7, "x"), 7);
  EXPECT_EQ(require<double>(body, "a", "x"), 2.0);
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
