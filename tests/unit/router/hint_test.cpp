#include "router/proxy.h"

#include <gtest/gtest.h>

namespace tritonforge::router {
namespace {

TEST(Hint, SessionAndTokensOfARequest) {
  net::Request request;
  request.body = R"({"session_id": 7, "sampling_params": {"max_new_tokens": 100}})";
  EXPECT_EQ(hint_of(request).session, "7");
  EXPECT_EQ(hint_of(request).tokens, 100 + static_cast<int64_t>(request.body.size() / 4));
  request.headers["x-session-id"] = "h";
  EXPECT_EQ(hint_of(request).session, "h");
  request.headers.clear();
  request.body = R"({"session_id": broken)";
  EXPECT_EQ(hint_of(request).session, "");
}

}  // namespace
}  // namespace tritonforge::router
