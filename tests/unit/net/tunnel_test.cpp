// A port of one "machine" is another's: here both ends are on one loopback, so the node serves one port and the head
// another one (the tests give the node's end a port of its own).
#include "net/tunnel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "net/http.h"
#include "unit/net/raw_socket.h"

namespace tritonforge::net {
namespace {

// A server of the node's, or of the head's.
struct Greeter {
  explicit Greeter(const std::string& text) : server({}) {
    server.route("GET", "/", [text](const Request&) { return Response{.body = text}; });
    server.route("POST", "/size",
                 [](const Request& request) { return Response{.body = std::to_string(request.body.size())}; });
    server.start();
  }
  int port() const { return server.port(); }
  HttpServer server;
};

std::string url(int port) { return "http://127.0.0.1:" + std::to_string(port) + "/"; }

TEST(Tunnel, APortOfTheNodesAnswersHereAndOneOfHereThere) {
  Greeter there("there"), here("here");
  TunnelHead head("127.0.0.1");
  const int seen_here = free_port();
  TunnelEnd end = head.open("engine-0", seen_here, {here.port()});
  end.serves = there.port();  // on one loopback the two ends of a port cannot have one number
  end.reaches.clear();
  const TunnelNode node(end);
  HttpClient client;
  EXPECT_EQ(client.get(url(seen_here)).value().body, "there");
  // A large body, and many clients at once: more than connections are parked.
  const std::string body(8 << 20, 'x');
  EXPECT_EQ(client.request("POST", url(seen_here) + "size", body).value().body, std::to_string(body.size()));
  std::vector<std::future<std::string>> replies;
  for (int i = 0; i < 64; ++i)
    replies.push_back(std::async(std::launch::async, [&] { return HttpClient().get(url(seen_here)).value().body; }));
  for (auto& reply : replies) EXPECT_EQ(reply.get(), "there");
  // What the node reaches: by the words that its end says.
  RawSocket reached(end.port);
  reached.send(end.key + " reach " + std::to_string(here.port()) +
               "\nGET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_NE(reached.read_all().find("here"), std::string::npos);
}

TEST(Tunnel, WhoDoesNotKnowTheKeyIsToldNothing) {
  Greeter here("here");
  TunnelHead head("127.0.0.1");
  const TunnelEnd end = head.open("trainer", free_port(), {here.port()});
  const std::string wish = " reach " + std::to_string(here.port()) + "\n";
  for (const std::string& words : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(32, '0') + wish,
                                   end.key.substr(1) + wish, wish, end.key + "\n", end.key + " reach 1\n",
                                   end.key + " reach " + std::to_string(end.port) + "\n", std::string(1 << 16, 'x')}) {
    RawSocket stranger(end.port);
    stranger.send(words);
    EXPECT_EQ(stranger.read_all(), "") << words.substr(0, 80);
    EXPECT_TRUE(stranger.closed()) << words.substr(0, 80);
  }
}

TEST(Tunnel, AnEndThatIsReplacedOrClosedIsOneNoMore) {
  Greeter first("first"), second("second");
  TunnelHead head("127.0.0.1");
  const int port = free_port();
  TunnelEnd old = head.open("engine-0", port, {});
  old.serves = first.port();
  const TunnelNode before(old);
  EXPECT_EQ(HttpClient().get(url(port)).value().body, "first");
  TunnelEnd end = head.open("engine-0", port, {});
  EXPECT_NE(end.key, old.key);
  end.serves = second.port();
  const TunnelNode after(end);
  EXPECT_EQ(HttpClient().get(url(port)).value().body, "second");
  head.close("engine-0");
  EXPECT_FALSE(HttpClient().get(url(port)).ok());
}

// A node whose connections break and are dialled anew.
TEST(Tunnel, NobodyIsGivenAConnectionThatHasEnded) {
  TunnelHead head("127.0.0.1");
  const int port = free_port();
  const TunnelEnd end = head.open("engine-0", port, {});
  for (int i = 0; i < 20; ++i) {
    RawSocket ended(end.port);
    ended.send(end.key + " serve\n");
  }
  RawSocket client(port);
  client.send("hello");
  RawSocket serves(end.port);
  serves.send(end.key + " serve\n");
  EXPECT_EQ(serves.read_until("hello", 10'000), "+hello");
}

TEST(Tunnel, OfANodesConnectionsNoMoreAreKeptThanItKeepsAtOnce) {
  TunnelHead head("127.0.0.1");
  const int port = free_port();
  const TunnelEnd end = head.open("engine-0", port, {});
  std::deque<RawSocket> parked;  // none is known to have ended
  for (int i = 0; i < 20; ++i) parked.emplace_back(end.port).send(end.key + " serve\n");
  const auto closed = [&] {
    return std::ranges::count_if(parked, [](const RawSocket& one) {
      pollfd there{one.fd(), POLLIN, 0};
      return ::poll(&there, 1, 0) > 0;
    });
  };
  const Deadline deadline = Deadline::after(20);
  while (closed() < 12 && !deadline.expired()) std::this_thread::yield();
  EXPECT_EQ(closed(), 12);  // a node keeps eight
}

TEST(Tunnel, APortThatIsInUseIsNamed) {
  Greeter here("here");
  TunnelHead head("127.0.0.1");
  try {
    head.open("engine-0", here.port(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(here.port()) + " on 127.0.0.1 is in use"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(TunnelHead("nowhere"), Error);
}

}  // namespace
}  // namespace tritonforge::net
