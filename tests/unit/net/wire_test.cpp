#include "net/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;

TEST(Wire, HeadersCannotBeInjected) {
  const std::string head = response_head(200, "text/plain", {{"x-a", "b\r\nset-cookie: c"}, {"content-length", "9"}}, 1,
                                         "id", true, false);
  EXPECT_EQ(head.find("\r\nset-cookie"), std::string::npos);
  EXPECT_EQ(head.find("content-length: 9"), std::string::npos);
}

TEST(Wire, AReplyBecomesItsErrorWithItsRetryAfter) {
  for (const auto kind : {ErrorKind::kUsage, ErrorKind::kConflict, ErrorKind::kBusy, ErrorKind::kUnavailable}) {
    const Error back = error_of(Response::error(Error(kind, "why")), "GET /x");
    EXPECT_EQ(back.kind(), kind) << name_of(kind);
    EXPECT_THAT(back.what(), HasSubstr("GET /x"));
    EXPECT_THAT(back.what(), HasSubstr("why"));
    const bool later = kind == ErrorKind::kBusy || kind == ErrorKind::kUnavailable;
    EXPECT_EQ(back.retry_after_s(), later ? 1 : 0) << name_of(kind);
  }
  // Others' replies carry a status alone.
  EXPECT_EQ(error_of({409, "no", "text/plain", {}}, "x").kind(), ErrorKind::kConflict);
  EXPECT_EQ(error_of({429, "no", "text/plain", {{"retry-after", "7"}}}, "x").kind(), ErrorKind::kBusy);
  EXPECT_EQ(error_of({429, "no", "text/plain", {{"retry-after", "7"}}}, "x").retry_after_s(), 7);
  for (const char* odd : {"", "-1", "7s", "Sun, 22 Nov 2026 03:00:00 GMT", "99999999999"})
    EXPECT_EQ(retry_after_of({503, "", "", {{"retry-after", odd}}}), 0) << odd;
}

TEST(Wire, WhateverAReplyHoldsItSaysOneLine) {
  const auto said = [](const std::string& body, const std::string& type = "application/json") {
    return said_by({500, body, type, {}});
  };
  EXPECT_EQ(said(R"({"error": {"message": "why\nso", "type": "busy"}})"), "why so");
  EXPECT_EQ(said(R"({"error": "why"})"), "why");
  EXPECT_EQ(said(R"({"detail": [1]})"), "[1]");
  EXPECT_EQ(said(" no\r\n\r\n  JSON ", "text/plain"), "no JSON");
  EXPECT_EQ(said(std::string(1000, 'x')).size(), 300u);
  for (const char* type : {"text/html; charset=utf-8", ""})
    EXPECT_EQ(said("<!DOCTYPE html>\n<html><title>502 Bad\nGateway</title><style>p {}</style>", type),
              "a page in HTML, '502 Bad Gateway': is this the address of another server?");
  EXPECT_THAT(said("<HTML><p>x", ""), HasSubstr("a page in HTML, ''"));
}

// What a reply says goes into JSON: a trajectory's, a status's.
TEST(Wire, WhatIsCutOrOfNoKnownLettersIsStillText) {
  const auto said = [](const std::string& body) { return said_by({500, body, "text/plain", {}}); };
  std::string accents;
  for (int i = 0; i < 400; ++i) accents += i == 0 ? "x" : "é";
  for (const std::string& text : {said(accents), said("caf\xe9"), said(R"({"error": ")" + accents + R"("})")})
    EXPECT_NO_THROW(Json(text).dump()) << text;
  EXPECT_EQ(said("caf\xe9"), "caf\uFFFD");
}

TEST(Wire, AnyBytesAreOneValueOfAQueryAndComeBack) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  EXPECT_EQ(parse_query("groups=" + percent_encode(every)).at("groups"), every);
}

}  // namespace
}  // namespace tritonforge::net
