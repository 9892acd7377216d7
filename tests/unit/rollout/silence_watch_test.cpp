#include "rollout/silence_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "rollout/peers.h"
#include "unit/net/raw_socket.h"
#include "unit/rollout/mock_peers.h"

namespace tritonforge::rollout {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Of one attempt, at a server that is asked for its health often.
PeerOptions at(const std::string& url, double silence_timeout_s) {
  PeerOptions options;
  options.router = url;
  options.generate_timeout_s = 30;
  options.patience_s = 0;
  options.silence_timeout_s = silence_timeout_s;
  options.health_interval_s = 0.01;
  options.health_timeout_s = 0.1;
  return options;
}

Result<Completion> generate(const PeerOptions& options) {
  return Peers(options).generate(group_spec("g"), "g.0-0", {1}, 10, /*seed=*/7, {kEnd}, {});
}

Result<Peers::Reply> chat(const PeerOptions& options) {
  return Peers(options).chat(group_spec("g"), "g.0-0", {{"user", "Hello"}}, /*seed=*/7, {});
}

// An engine with OpenAI's names, too, that keeps a request until its health was asked for five times.
struct SlowServer {
  explicit SlowServer(const std::function<net::Response()>& health) {
    server.route_async("GET", "/health", [this, health](const net::Request&, const net::ResponderPtr& reply) {
      reply->send(health());
      if (++asked < 5 || !held) return;
      held->send({.body = R"({"choices": [{"message": {"content": "Hello."}}]})"});
      held.reset();
    });
    const auto hold = [this](const net::Request&, net::ResponderPtr reply) { held = std::move(reply); };
    server.route_async("POST", "/v1/chat/completions", hold);
    server.route_async("POST", "/generate", hold);
    server.start();
  }
  ~SlowServer() { server.stop(0); }
  int asked = 0;  // of the I/O thread, as the next one
  net::ResponderPtr held;
  net::HttpServer server{net::ServerOptions{}};
};

// As a process that is stopped: its connections stay, and no byte comes.
TEST(SilenceWatch, WhatWasAskedOfAServerThatHangsHasFailedAndNamesIt) {
  const net::Listening hangs;
  const std::string url = fmt::format("http://127.0.0.1:{}", hangs.port);
  EXPECT_THAT(
      generate(at(url, 0.2)).error().what(),
      AllOf(HasSubstr(url + "/generate: it hangs: health checks have failed for "), HasSubstr(url + "/health")));
  EXPECT_THAT(chat(at(url + "/v1", 0.2)).error().what(),
              AllOf(HasSubstr(url + "/v1/chat/completions: it hangs: "), HasSubstr(url + "/health")));
}

TEST(SilenceWatch, OneThatSaysThatItIsRedHangsToo) {
  const SlowServer server([] { return net::health_reply(net::Colour::kRed, "engine", "no step has ended"); });
  EXPECT_THAT(generate(at(server.server.url(), 0.001)).error().what(),
              AllOf(HasSubstr("/generate: it hangs: "), HasSubstr(R"(/health: 503: "no step has ended")")));
}

// Nor is any the worse for having no such page, or for a key that it wants there.
TEST(SilenceWatch, OneThatAnswersIsWaitedFor) {
  for (const int status : {200, 404, 401, 501}) {
    const SlowServer server([=] { return net::Response::text("?", status); });
    const auto reply = chat(at(server.server.url() + "/v1", 1e-6));
    ASSERT_TRUE(reply.ok()) << status << ": " << reply.error().what();
    EXPECT_EQ(reply->text, "Hello.");
  }
}

}  // namespace
}  // namespace tritonforge::rollout
