#include "parallel/names.h"

#include <gtest/gtest.h>

namespace tritonforge::parallel {
namespace {

// What rounds of weights meet at goes with the round (weights/desk.h).
TEST(Names, KeysAndCountersThatBeginSoAreRemovedTogether) {
  net::HttpServer server({});
  Names names(server);
  server.start();
  net::HttpClient client;
  const auto count = [&](const std::string& name) {
    return client.post_json(server.url() + "/counters/" + name, {{"add", 1}}).value()["value"].get<int>();
  };
  for (const std::string name : {"1-1-have", "1-2-have"}) {
    EXPECT_EQ(count(name), 1);
    EXPECT_EQ(count(name), 2);
    EXPECT_EQ(client.request("PUT", server.url() + "/keys/" + name, "x").value().status, 200);
  }
  names.remove_all("1-1");
  EXPECT_EQ(count("1-1-have"), 1);
  EXPECT_EQ(count("1-2-have"), 3);
  EXPECT_EQ(client.get(server.url() + "/keys/1-1-have").value().status, 404);
  EXPECT_EQ(client.get(server.url() + "/keys/1-2-have").value().status, 200);
}

// Names that are used once, as each of rank 0's commands is, leave nothing behind.
TEST(Names, WhatIsRemovedIsCountedAnew) {
  net::HttpServer server({});
  Names names(server);
  server.start();
  net::HttpClient client;
  const auto count = [&] {
    return client.post_json(server.url() + "/counters/command-1-read", {{"add", 1}}).value()["value"].get<int>();
  };
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(client.request("DELETE", server.url() + "/keys/command-1-read", "").value().status, 200);
  EXPECT_EQ(count(), 1);
}

}  // namespace
}  // namespace tritonforge::parallel
