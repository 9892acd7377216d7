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
}

}  // namespace
}  // namespace tritonforge::router
