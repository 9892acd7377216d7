#include "router/proxy.h"

#include <gtest/gtest.h>

namespace tritonforge::router {
namespace {

TEST(Hint, SessionAndTokensOfARequest) {
  net::Request request;
  request.body = R"({"session_id": 7, "sampling_params": {"max_new_tokens": 100}})";
  const auto hint_of = [&] { return router::hint_of(request.headers, request.body); };
  EXPECT_EQ(hint_of().session, "7");
  EXPECT_EQ(hint_of().prompt, "");
  EXPECT_EQ(hint_of().tokens, 100 + static_cast<int64_t>(request.body.size() / 4));
  request.headers["x-session-id"] = "h";
  EXPECT_EQ(hint_of().session, "h");
  request.headers.clear();
  request.body = R"({"session_id": broken)";
  EXPECT_EQ(hint_of().session, "");
  request.body = R"({"rid": "1", "input_ids": [1, 2]})";
  EXPECT_EQ(hint_of().prompt, R"("input_ids": [1, 2]})");
  request.body = R"({"prompt": "p", "text": "t", "max_tokens": 3, "max_completion_tokens":40, "max_tokens": 500})";
  EXPECT_EQ(hint_of().prompt.substr(0, 6), R"("text")");  // the order of the keys' weight, not of the body
  EXPECT_EQ(hint_of().tokens, 43 + static_cast<int64_t>(request.body.size() / 4));
}

TEST(Hint, ASessionIsAKeyOfTheOutermostObject) {
  const auto session_of = [](std::string_view body) { return hint_of({}, body).session; };
  EXPECT_EQ(session_of(R"({"a": {"session_id": "in"}, "b": ["session_id", {"session_id": 1}], "session_id" : "out"})"),
            "out");
  EXPECT_EQ(session_of(R"({"text": "\"session_id\": \"said\"", "meta": "session_id"})"), "");
  EXPECT_EQ(session_of(R"({"text": "\\", "session_id": "a\u0062\"c"})"), "ab\"c");
  EXPECT_EQ(session_of(R"({"session_id": -12.5e3})"), "-12500.0");
  for (const char* broken : {R"({"session_id)", R"({"session_id")", R"({"session_id":)", R"({"session_id": "x)",
                             R"({"session_id": "x\)", R"("session_id": 1)"})
    EXPECT_EQ(session_of(broken), "") << broken;
}

}  // namespace
}  // namespace tritonforge::router
