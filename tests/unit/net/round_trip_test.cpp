#include <gtest/gtest.h>

#include "net/http.h"

namespace tritonforge::net {
namespace {

TEST(RoundTrip, JsonPost) {
  HttpServer server({});
  server.route("POST", "/echo/{name}", [](const Request& request) {
    return Response::json({{"name", request.parameters.at("name")}, {"body", request.json()}, {"q", request.query.at("q")}});
  });
  server.start();
  HttpClient client;
  const Json reply = client.post_json(server.url() + "/echo/a%20b?q=1+2", {{"x", 1}}).value();
  EXPECT_EQ(reply["name"], "a b");
  EXPECT_EQ(reply["q"], "1 2");
  EXPECT_EQ(reply["body"]["x"], 1);
  EXPECT_EQ(client.post_json(server.url() + "/echo/y?q=", {{"x", 2}}).value()["body"]["x"], 2);
}

}  // namespace
}  // namespace tritonforge::net
