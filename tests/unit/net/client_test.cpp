#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <future>
#include <thread>

#include "base/process.h"
#include "net/async_client.h"
#include "net/http.h"
#include "net/wire.h"
#include "unit/net/raw_socket.h"
#include "unit/net/streamed.h"

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;

// A TCP server of one scripted reply per connection; counts connections.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> replies) : replies_(std::move(replies)) {
    url = fmt::format("http://127.0.0.1:{}/x", listening_.port);
    thread_ = std::thread([this] {
      for (const auto& reply : replies_) {
        const int peer = listening_.accept();
        if (peer < 0) return;
        ++connections;
        char buffer[4096];
        if (::recv(peer, buffer, sizeof buffer, 0) > 0) ::send(peer, reply.data(), reply.size(), MSG_NOSIGNAL);
        ::close(peer);
      }
    });
  }
  ~ScriptedServer() {
    listening_.end();
    thread_.join();
  }
  std::string url;
  std::atomic<int> connections{0};

 private:
  std::vector<std::string> replies_;
  const Listening listening_;
  std::thread thread_;
};

TEST(Client, NobodyListensIsUnavailableAndNamed) {
  const std::string url = fmt::format("http://127.0.0.1:{}/x", free_port());
  const auto result = HttpClient().get(url);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(result.error().what(), HasSubstr(url));
  EXPECT_THAT(result.error().what(), HasSubstr("connecting"));
}

TEST(Client, TimeoutNamesTheUrl) {
  std::promise<ResponderPtr> held;
  HttpServer server({});
  server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) { held.set_value(std::move(reply)); });
  server.start();
  const auto result = HttpClient({.timeout_s = 0.1}).get(server.url() + "/wait");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind(), ErrorKind::kTimeout);
  EXPECT_THAT(result.error().what(), HasSubstr("/wait: no complete reply within 0.1 s"));
  held.get_future().get().reset();
}

TEST(Client, OnlyHttpIsSpoken) {
  EXPECT_EQ(HttpClient().get("ftp://example.com/").error().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(HttpClient().get("ftp://example.com/").error().what(), HasSubstr("ftp://"));
  for (const char* bad :
       {"", "localhost:80", "http://", "http://a:b/", "http://a:99999/", "http://[::1/", "http://x/a b"}) {
    EXPECT_EQ(HttpClient().get(bad).error().kind(), ErrorKind::kUsage) << bad;
  }
}

TEST(Client, ReplyThatEndsWithTheConnection) {
  ScriptedServer server({"HTTP/1.1 200 OK\r\n\r\nuntil the end"});
  EXPECT_EQ(HttpClient().get(server.url).value().body, "until the end");
}

TEST(Client, CutAndMalformedRepliesAreErrors) {
  ScriptedServer server({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "banana\r\n\r\n", ""});
  HttpClient client;
  EXPECT_THAT(client.get(server.url).error().what(), HasSubstr("in the middle of its reply"));
  const Error malformed = client.get(server.url).error();
  EXPECT_THAT(malformed.what(), HasSubstr("malformed"));
  EXPECT_EQ(malformed.kind(), ErrorKind::kUsage);  // no HTTP: it is not asked again
  EXPECT_THAT(client.get(server.url).error().what(), HasSubstr("without a reply"));
  EXPECT_EQ(server.connections, 3);  // a fresh connection that fails is not tried twice
}

// Whatever says how long it is: a header, chunks, the end of the connection. A peer is not always ours.
TEST(Client, AReplyIsHeldUpToItsBoundAlone) {
  const std::string ten = "0123456789";
  ScriptedServer server({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + ten,
                         "HTTP/1.1 200 OK\r\nContent-Length: 900000000000\r\n\r\n" + ten,
                         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n" + ten + "\r\n1\r\nx\r\n0\r\n\r\n",
                         "HTTP/1.1 200 OK\r\n\r\n" + ten + "x"});
  HttpClient client({.longest_reply = 10});
  EXPECT_EQ(client.get(server.url).value().body, ten);
  for (const char* framing : {"length", "chunks", "end"}) {
    const auto reply = client.get(server.url);
    ASSERT_FALSE(reply.ok()) << framing;
    EXPECT_EQ(reply.error().kind(), ErrorKind::kCorrupt) << framing;
    EXPECT_EQ(reply.error().what(), "GET " + server.url + ": the reply is longer than 10 bytes") << framing;
  }
}

TEST(Client, APassedOnReplyHasNoBound) {
  ScriptedServer server(
      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"});
  AsyncClient client;
  const auto get = [&](std::optional<uint64_t> longest) {
    std::promise<Result<Response>> reply;
    client.send({.url = server.url, .longest_reply = longest},
                whole_reply([&](Result<Response> got) { reply.set_value(std::move(got)); }));
    return reply.get_future().get();
  };
  EXPECT_EQ(get(2).error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(get(std::nullopt).value().body, "abc");
}

TEST(Client, ARepliesPiecesMayBeCutAnywhere) {
  const std::string reply =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4\r\nhalf\r\n6;x=y\r\n + two\r\n0\r\nx-a: 3\r\n\r\n";
  const Listening listening;
  for (size_t cut = 1; cut < reply.size(); ++cut) {
    std::thread server([&] {
      const int peer = listening.accept();
      char buffer[4096];
      if (::recv(peer, buffer, sizeof buffer, 0) > 0) {
        const int on = 1;
        ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::send(peer, reply.data(), cut, MSG_NOSIGNAL);
        ::send(peer, reply.data() + cut, reply.size() - cut, MSG_NOSIGNAL);
      }
      ::close(peer);
    });
    const auto got = HttpClient().get(fmt::format("http://127.0.0.1:{}/", listening.port)).value();
    server.join();
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.body, "half + two");
    EXPECT_EQ(got.headers.at("x-a"), "1, 2");
  }
}

TEST(Client, ServerRestartBetweenRequestsIsNotSeen) {
  HttpClient client;
  const int port = free_port();
  for (int i = 0; i < 3; ++i) {
    ServerOptions options;
    options.port = port;
    HttpServer server(options);
    server.route("POST", "/n", [i](const Request&) { return Response::text(std::to_string(i)); });
    server.start();
    EXPECT_EQ(client.post(fmt::format("http://localhost:{}/n", port), {}).value().body, std::to_string(i));
  }
}

TEST(Client, LargeBodiesBothWays) {
  HttpServer server({});
  server.route("POST", "/echo",
               [](const Request& request) { return Response{200, request.body, "application/octet-stream", {}}; });
  server.start();
  std::string body(32 << 20, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761u >> 13);
  EXPECT_TRUE(HttpClient().request("POST", server.url() + "/echo", body, "application/octet-stream").value().body ==
              body);
}

TEST(AsyncClient, HangingUpEndsTheStream) {
  HttpServer server({});
  std::promise<void> gone;
  server.route_async("GET", "/s", [&](const Request&, ResponderPtr reply) {
    reply->on_disconnect([&gone, reply] { gone.set_value(); });
    reply->begin_stream(200, "text/event-stream");
    reply->write(sse_event("1"));
  });
  server.start();
  int chunks = 0;
  const auto reply = streamed({.url = server.url() + "/s"}, [&](std::string_view) { return ++chunks < 1; });
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(chunks, 1);
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(AsyncClient, CallbacksInOrderAndCancel) {
  HttpServer server({});
  server.route("GET", "/x", [](const Request&) { return Response::text("body"); });
  std::promise<void> gone, waiting;
  server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) {
    reply->on_disconnect([&gone, reply] { gone.set_value(); });
    waiting.set_value();
  });
  server.start();
  AsyncClient client;
  std::string log;
  std::promise<void> done;
  client.send({.url = server.url() + "/x"}, {[&](int status, const Headers&) { log += std::to_string(status) + " "; },
                                             [&](std::string_view bytes) {
                                               log += bytes;
                                               return true;
                                             },
                                             [&](std::optional<Error> error, bool head) {
                                               log += error ? " failed" : " done";
                                               done.set_value();
                                             }});
  done.get_future().wait();
  EXPECT_EQ(log, "200 body done");
  std::promise<bool> cancelled;
  const auto call = client.send({.url = server.url() + "/wait"},
                                {[](int, const Headers&) {}, [](std::string_view) { return true; },
                                 [&](std::optional<Error> error, bool) { cancelled.set_value(!error); }});
  waiting.get_future().wait();
  call->cancel();
  EXPECT_TRUE(cancelled.get_future().get());
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(AsyncClient, WhatAHandlerSendsStaysOnItsThread) {
  HttpServer engine({}), front({});
  engine.route("GET", "/x", [](const Request&) { return Response::text("from the engine"); });
  AsyncClient client;
  std::thread::id handler, callback;
  front.route_async("GET", "/x", [&](const Request&, ResponderPtr reply) {
    handler = std::this_thread::get_id();
    auto body = std::make_shared<std::string>();
    client.send({.url = engine.url() + "/x"}, {[](int, const Headers&) {},
                                               [body](std::string_view bytes) {
                                                 *body += bytes;
                                                 return true;
                                               },
                                               [&callback, body, reply](std::optional<Error>, bool) {
                                                 callback = std::this_thread::get_id();
                                                 reply->send(Response::text(*body));
                                               }});
  });
  engine.start();
  front.start();
  HttpClient asker;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(asker.get(front.url() + "/x").value().body, "from the engine");
    EXPECT_EQ(handler, callback);
  }
}

// What a handler sent and nobody waits for any more ends with the server that it runs on; the client lives on.
TEST(AsyncClient, WhatAHandlerSentEndsWithItsServer) {
  HttpServer engine({});
  std::promise<ResponderPtr> asked;
  std::promise<void> gone;
  engine.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) {
    reply->on_disconnect([&] { gone.set_value(); });
    asked.set_value(std::move(reply));
  });
  engine.route("GET", "/x", [](const Request&) { return Response::text("x"); });
  engine.start();
  AsyncClient client;
  std::promise<bool> ended;
  const AsyncCallbacks callbacks{[](int, const Headers&) {}, [](std::string_view) { return true; },
                                 [&](std::optional<Error> error, bool) { ended.set_value(!error); }};
  {
    HttpServer front({});
    front.route_async("GET", "/x", [&](const Request&, ResponderPtr reply) {
      client.send({.url = engine.url() + "/wait"}, callbacks);
      reply->send(Response::text("asked"));
    });
    front.start();
    EXPECT_EQ(HttpClient().get(front.url() + "/x").value().body, "asked");
    const auto held = asked.get_future().get();
    front.stop(0);
    EXPECT_TRUE(ended.get_future().get());
    gone.get_future().wait();
  }
  std::promise<int> status;
  client.send({.url = engine.url() + "/x"}, {[&](int code, const Headers&) { status.set_value(code); },
                                             [](std::string_view) { return true; }, [](std::optional<Error>, bool) {}});
  EXPECT_EQ(status.get_future().get(), 200);
}

TEST(AsyncClient, EndsWithWhatItsServersHandlersSent) {
  HttpServer engine({}), front({});
  std::promise<ResponderPtr> asked;
  engine.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) { asked.set_value(std::move(reply)); });
  engine.start();
  auto client = std::make_unique<AsyncClient>();
  bool ended = false;
  front.route_async("GET", "/x", [&](const Request&, ResponderPtr reply) {
    client->send({.url = engine.url() + "/wait"}, {[](int, const Headers&) {}, [](std::string_view) { return true; },
                                                   [&](std::optional<Error>, bool) { ended = true; }});
    reply->send(Response::text("asked"));
  });
  front.start();
  EXPECT_EQ(HttpClient().get(front.url() + "/x").value().body, "asked");
  const auto held = asked.get_future().get();
  client.reset();
  EXPECT_TRUE(ended);
}

TEST(AsyncClient, AConnectionThatNobodyUsesIsClosed) {
  const Listening listening;
  AsyncClient client;
  std::promise<void> done;
  AsyncRequest request;
  request.method = "GET";
  request.url = fmt::format("http://127.0.0.1:{}/", listening.port);
  client.send(request, {[](int, const Headers&) {}, [](std::string_view) { return true; },
                        [&](const std::optional<Error>& error, bool) {
                          EXPECT_FALSE(error);
                          done.set_value();
                        }});
  const int fd = listening.accept();
  char bytes[4096];
  ASSERT_GT(::recv(fd, bytes, sizeof bytes, 0), 0);
  constexpr std::string_view kReply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  ASSERT_EQ(::send(fd, kReply.data(), kReply.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kReply.size()));
  done.get_future().wait();
  EXPECT_EQ(::recv(fd, bytes, sizeof bytes, 0), 0);  // seconds later
  ::close(fd);
}

TEST(AsyncClient, WhoThrowsIsToldOfTheEndAllTheSame) {
  ScriptedServer server({"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"});
  std::promise<std::optional<Error>> over;
  AsyncClient client;
  client.send({.url = server.url}, {.on_head = [](int, const Headers&) { throw std::runtime_error("no room"); },
                                    .on_body = [](std::string_view) { return true; },
                                    .on_done = [&](std::optional<Error> error, bool) { over.set_value(error); }});
  auto outcome = over.get_future();
  ASSERT_EQ(outcome.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const auto error = outcome.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInternal);
  EXPECT_THAT(error->what(), HasSubstr("no room"));
}

TEST(AsyncClient, BadUrlComesThroughOnDone) {
  AsyncClient client;
  std::promise<ErrorKind> kind;
  client.send({.url = "ftp://x"}, {[](int, const Headers&) {}, [](std::string_view) { return true; },
                                   [&](std::optional<Error> error, bool) { kind.set_value(error.value().kind()); }});
  EXPECT_EQ(kind.get_future().get(), ErrorKind::kUnsupported);
}

TEST(Health, WaitNamesWhatItWaitedFor) {
  const std::string url = fmt::format("http://127.0.0.1:{}/health", free_port());
  try {
    wait_until_healthy(url, Deadline::after(0.1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr(url + " to be healthy"));
  }
}

TEST(Sse, EventsSurviveAnyCut) {
  const std::string text = sse_event("a\nb") +
                           ": comment\r\nevent: x\r\ndata: {\"k\": 1}\r\n\r\ndata\n\ndata:[DONE]\n\ndata: unfinished";
  for (size_t size = 1; size <= text.size(); ++size) {
    SseParser parser;
    std::vector<std::string> events;
    for (size_t at = 0; at < text.size(); at += size) {
      parser.feed(std::string_view(text).substr(at, size), [&](std::string_view data) { events.emplace_back(data); });
    }
    EXPECT_EQ(events, (std::vector<std::string>{"a\nb", "{\"k\": 1}", "", "[DONE]"})) << size;
  }
}

}  // namespace
}  // namespace tritonforge::net
