#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <latch>
#include <thread>

#include "base/process.h"
#include "net/http.h"
#include "unit/net/raw_socket.h"
#include "unit/net/streamed.h"

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ServerOptions with(std::function<void(ServerOptions&)> change) {
  ServerOptions options;
  change(options);
  return options;
}

void add_echo(HttpServer& server) {
  server.route("POST", "/echo", [](const Request& request) { return Response::text(request.body); });
  server.route("GET", "/health", [](const Request&) { return Response::json({{"status", "green"}}); });
}

std::string exchange_raw(HttpServer& server, std::string_view bytes) {
  RawSocket socket(server.port());
  socket.send(bytes);
  socket.half_close();
  return socket.read_all();
}

TEST(Server, JsonRoundTripKeepsTheConnection) {
  HttpServer server({});
  server.route("POST", "/echo/{name}", [](const Request& request) {
    return Response::json(
        {{"name", request.parameters.at("name")}, {"body", request.json()}, {"q", request.query.at("q")}});
  });
  server.start();
  HttpClient client;
  for (int i = 0; i < 3; ++i) {
    const Json reply = client.post_json(server.url() + "/echo/a%20b?q=1+2", {{"x", i}}).value();
    EXPECT_EQ(reply["name"], "a b");
    EXPECT_EQ(reply["q"], "1 2");
    EXPECT_EQ(reply["body"]["x"], i);
  }
}

TEST(Server, TwoPipelinedRequestsAreAnsweredInOrder) {
  HttpServer server({});
  add_echo(server);
  server.start();
  const std::string one = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\none";
  const std::string two = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntwo";
  const std::string got = exchange_raw(server, one + two);
  EXPECT_LT(got.find("\r\n\r\none"), got.find("\r\n\r\ntwo"));
  EXPECT_NE(got.find("\r\n\r\ntwo"), std::string::npos);
}

TEST(Server, ChunkedRequestBodies) {
  HttpServer server({});
  add_echo(server);
  server.start();
  EXPECT_THAT(
      exchange_raw(server,
                   "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                   "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"),
      HasSubstr("\r\n\r\nabcdefg"));
}

TEST(Server, PipelinedRequestsAreAnsweredInOrderWhateverThread) {
  HttpServer server({});
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, ResponderPtr> held;
  server.route_async("GET", "/held/{name}", [&](const Request& request, ResponderPtr reply) {
    const std::lock_guard lock(mutex);
    held[request.parameters.at("name")] = std::move(reply);
    changed.notify_all();
  });
  add_echo(server);
  server.start();
  RawSocket socket(server.port());
  socket.send(
      "GET /held/a HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
      "1\r\n\r\nb"
      "GET /held/c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  for (const std::string name : {"a", "c"}) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return held.count(name) > 0; }));
    EXPECT_EQ(held.size(), 1u);  // one at a time
    auto reply = std::exchange(held[name], nullptr);
    held.clear();
    lock.unlock();
    reply->send(Response::text("reply " + name));
  }
  const std::string got = socket.read_all();
  const size_t a = got.find("reply a"), b = got.find("\r\n\r\nb"), c = got.find("reply c");
  EXPECT_LT(a, b);
  EXPECT_LT(b, c);
  EXPECT_NE(c, std::string::npos);
}

TEST(Server, WhoClosesItsSendingHalfStillGetsTheReply) {
  HttpServer server({});
  ResponderPtr held;
  std::promise<void> left;
  server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) {
    reply->on_disconnect([&] { left.set_value(); });
    held = std::move(reply);
  });
  server.start();
  RawSocket socket(server.port());
  socket.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  socket.half_close();
  left.get_future().wait();
  held->send(Response::text("still here"));
  held.reset();
  EXPECT_TRUE(socket.read_all().ends_with("still here"));
}

TEST(Server, AReplyThatTheSocketDoesNotTakeAtOnceArrivesWhole) {
  HttpServer server({});
  const std::string piece(3 << 20, '~');
  server.route_async("GET", "/stream", [&](const Request&, ResponderPtr reply) {
    reply->begin_stream(200, "text/plain");
    reply->write(piece);
    reply->write("end");
    reply->end_stream();
  });
  server.route("GET", "/whole", [&](const Request&) { return Response::text(piece + piece + piece); });
  server.start();
  RawSocket socket(server.port());
  socket.send(
      "GET /whole HTTP/1.1\r\nHost: localhost\r\n\r\nGET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: "
      "close\r\n\r\n");
  const std::string got = socket.read_all();
  EXPECT_EQ(std::count(got.begin(), got.end(), '~'), static_cast<std::ptrdiff_t>(4 * piece.size()));
  EXPECT_TRUE(got.ends_with("\r\n3\r\nend\r\n0\r\n\r\n"));
}

TEST(Server, WhatStandsBehindAChunkedBodyIsNoHeader) {
  HttpServer server({});
  server.route("POST", "/who", [](const Request& request) {
    return Response::text(request.headers.count("x-session-id") ? request.headers.at("x-session-id") : "nobody");
  });
  server.start();
  EXPECT_TRUE(
      exchange_raw(server,
                   "POST /who HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                   "1\r\na\r\n0\r\nx-session-id: forged\r\n\r\n")
          .ends_with("nobody"));
}

TEST(Server, MalformedRequestIs400) {
  HttpServer server({});
  add_echo(server);
  server.start();
  EXPECT_THAT(exchange_raw(server, "this is not http\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(exchange_raw(server, "GET /health HTTP/1.1\r\nHost: localhost\r\nx-timeout-s: soon\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
}

TEST(Server, ATargetThatIsNoPathIs400) {
  HttpServer server({});
  server.route("*", "/*", [](const Request& request) { return Response::text("got " + request.target); });
  server.start();
  for (const std::string line : {"OPTIONS *", "GET http://x/", "GET .evil.com/x", "GET 1/x", "CONNECT x:1"}) {
    const std::string got = exchange_raw(server, line + " HTTP/1.1\r\nHost: localhost\r\n\r\nGET /y HTTP/1.1\r\n\r\n");
    EXPECT_THAT(got, StartsWith("HTTP/1.1 400 ")) << line;
    EXPECT_THAT(got, HasSubstr("is no path")) << line;
    EXPECT_THAT(got, HasSubstr("got /y")) << line;  // the connection is as good as before
  }
}

TEST(Server, ABodyWhoseEndNobodyKnowsIs400AndTheLast) {
  HttpServer server({});
  add_echo(server);
  server.start();
  for (const std::string coding : {"identity", "xchunked", "chunked, identity"}) {
    const std::string got = exchange_raw(server,
                                         "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " + coding +
                                             "\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(got, StartsWith("HTTP/1.1 400 ")) << coding;
    EXPECT_THAT(got, Not(HasSubstr("green"))) << coding;
  }
}

TEST(Server, HugeHeadersAre431) {
  HttpServer server({});
  add_echo(server);
  server.start();
  EXPECT_THAT(exchange_raw(server, "GET /health HTTP/1.1\r\nA: " + std::string(1 << 17, 'a') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
}

TEST(Server, HeadersThatComeByAndByAreLimitedTogether) {
  HttpServer server({});
  add_echo(server);
  server.start();
  RawSocket socket(server.port());
  socket.send("GET /health HTTP/1.1\r\n");
  const std::string line = "a: " + std::string(1000, 'a') + "\r\n";
  for (int i = 0; i < 200 && socket.send(line); ++i) {}
  EXPECT_THAT(socket.read_until("bytes"), StartsWith("HTTP/1.1 431"));
}

TEST(Server, BodyOverTheLimitIs413) {
  HttpServer server(with([](auto& o) { o.max_body = 1000; }));
  add_echo(server);
  server.start();
  HttpClient client;
  EXPECT_EQ(client.request("POST", server.url() + "/echo", std::string(1000, 'x')).value().status, 200);
  const auto refused = client.request("POST", server.url() + "/echo", std::string(8 << 20, 'x')).value();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, HasSubstr("1000 bytes"));
}

TEST(Server, UnknownRouteNamesTheNearest) {
  HttpServer server({});
  add_echo(server);
  server.start();
  HttpClient client;
  const auto error = client.get_json(server.url() + "/helth").error();
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("did you mean '/health'?"));
}

TEST(Server, WrongMethodIs405WithAllow) {
  HttpServer server({});
  add_echo(server);
  server.start();
  HttpClient client;
  const auto reply = client.get(server.url() + "/echo").value();
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  EXPECT_EQ(client.request("POST", server.url() + "/health", "").value().headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(client.request("OPTIONS", server.url() + "/echo", "").value().status, 204);
}

TEST(Server, HeadHasTheHeadersOfGetAndNoBody) {
  HttpServer server({});
  add_echo(server);
  server.start();
  const std::string got = exchange_raw(server, "HEAD /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(got, HasSubstr("Content-Length: 18\r\n"));
  EXPECT_TRUE(got.ends_with("\r\n\r\n"));
  HttpClient client;
  EXPECT_EQ(client.request("HEAD", server.url() + "/health", "").value().status, 200);
  EXPECT_EQ(client.get(server.url() + "/health").value().status, 200);
}

TEST(Server, KeyIsCheckedExceptForHealth) {
  HttpServer server(with([](auto& o) { o.api_key = "secret"; }));
  add_echo(server);
  server.start();
  HttpClient open, wrong({.api_key = "secreT"}), right({.api_key = "secret"});
  EXPECT_EQ(open.get(server.url() + "/health").value().status, 200);
  EXPECT_EQ(open.request("POST", server.url() + "/echo", "x").value().status, 401);
  EXPECT_EQ(open.get(server.url() + "/no-such-path").value().status, 401);  // routes are not told to strangers
  EXPECT_EQ(open.request("POST", server.url() + "/health", "x").value().status, 401);  // /* may pass that on
  EXPECT_EQ(wrong.request("POST", server.url() + "/echo", "x").value().status, 401);
  EXPECT_EQ(right.request("POST", server.url() + "/echo", "x").value().status, 200);
  EXPECT_EQ(open.get(server.url() + "/no-such-path").value().headers.at("www-authenticate"),
            "Basic realm=\"TritonForge\"");  // a browser asks its user
  EXPECT_EQ(open.request("POST", server.url() + "/echo", "x").value().headers.at("www-authenticate"), "Bearer");
}

TEST(Server, RefusesAnOpenAddressWithoutAKey) {
  try {
    HttpServer server(with([](auto& o) { o.host = "0.0.0.0"; }));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("0.0.0.0"));
  }
  EXPECT_NO_THROW(HttpServer(with([](auto& o) {
    o.host = "0.0.0.0";
    o.api_key = "k";
  })));
}

TEST(Server, PortInUseIsNamed) {
  HttpServer first({});
  try {
    HttpServer second(with([&](auto& o) { o.port = first.port(); }));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_EQ(std::string(error.what()), fmt::format("port {} on 127.0.0.1 is in use", first.port()));
  }
}

TEST(Server, ThrownErrorsBecomeReplies) {
  HttpServer server({});
  server.route("GET", "/corrupt", [](const Request&) -> Response { fail(ErrorKind::kCorrupt, "bad file\nline"); });
  server.route("GET", "/bug", [](const Request&) -> Response { throw std::runtime_error("oops"); });
  server.route_async("GET", "/async", [](const Request&, ResponderPtr) { fail(ErrorKind::kUnavailable, "down"); });
  server.route_async("GET", "/dropped", [](const Request&, ResponderPtr) {});
  server.start();
  HttpClient client;
  EXPECT_EQ(client.get(server.url() + "/corrupt").value().status, 422);
  EXPECT_EQ(client.get_json(server.url() + "/corrupt").error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(client.get(server.url() + "/bug").value().status, 500);
  EXPECT_EQ(client.get(server.url() + "/dropped").value().status, 500);
  const auto down = client.get(server.url() + "/async").value();
  EXPECT_EQ(down.status, 503);
  EXPECT_EQ(down.headers.at("retry-after"), "1");
}

TEST(Server, RequestIdIsEchoedOrFresh) {
  HttpServer server({});
  add_echo(server);
  server.start();
  HttpClient client, named({.headers = {{"x-request-id", "abc-1"}}});
  EXPECT_EQ(named.get(server.url() + "/health").value().headers.at("x-request-id"), "abc-1");
  const auto one = client.get(server.url() + "/health").value().headers.at("x-request-id");
  EXPECT_NE(one, client.get(server.url() + "/health").value().headers.at("x-request-id"));
}

TEST(Server, FullQueueIs503AndExpiredWaiterIs504) {
  HttpServer server(with([](auto& o) {
    o.worker_threads = 1;
    o.max_queue = 1;
  }));
  std::promise<void> release;
  const auto released = release.get_future().share();
  std::promise<void> entered;
  server.route("POST", "/block", [&](const Request&) {
    entered.set_value();
    released.wait();
    return Response::text("done");
  });
  std::promise<void> arrived;
  server.route_async("GET", "/mark", [&](const Request&, ResponderPtr reply) { reply->send(Response::text("")); });
  add_echo(server);
  server.start();
  HttpClient client;
  auto blocked = std::async(std::launch::async,
                            [&] { return client.request("POST", server.url() + "/block", "").value().status; });
  entered.get_future().wait();
  RawSocket queued(server.port());
  queued.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nx-timeout-s: 0.001\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  // One I/O thread serves in order of arrival, so the queued request is in the queue once a later one is refused.
  RawSocket probe(server.port());
  probe.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  const std::string refused = probe.read_all();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("retry-after: 1"));
  EXPECT_EQ(client.get(server.url() + "/mark").value().status, 200);  // asynchronous handlers need no worker
  const auto passed = Deadline::after(0.01);                          // later than the queued request's
  while (!passed.expired()) std::this_thread::yield();
  release.set_value();
  EXPECT_EQ(blocked.get(), 200);
  EXPECT_THAT(queued.read_all(), StartsWith("HTTP/1.1 504"));
}

TEST(Server, SlowHeadersTimeOut) {
  HttpServer server(with([](auto& o) { o.header_timeout_s = 0.2; }));
  add_echo(server);
  server.start();
  RawSocket slow(server.port());
  slow.send("GET /health HTTP/1.1\r\nHost:");
  EXPECT_THAT(slow.read_all(), StartsWith("HTTP/1.1 408"));
  EXPECT_TRUE(slow.closed());
}

TEST(Server, IdleConnectionsTimeOut) {
  HttpServer server(with([](auto& o) { o.idle_timeout_s = 0.2; }));
  add_echo(server);
  server.start();
  RawSocket silent(server.port());
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.closed());
}

TEST(Server, ExpectContinueIsAnswered) {
  HttpServer server({});
  add_echo(server);
  server.start();
  RawSocket socket(server.port());
  socket.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: "
      "close\r\n\r\n");
  EXPECT_THAT(socket.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100"));
  socket.send("hi");
  EXPECT_TRUE(socket.read_all().ends_with("\r\n\r\nhi"));
}

TEST(Server, StreamsArriveChunkByChunk) {
  HttpServer server({});
  ResponderPtr held;
  std::promise<void> begun;
  server.route_async("GET", "/stream", [&](const Request&, ResponderPtr reply) {
    reply->begin_stream(200, "text/event-stream");
    held = std::move(reply);
    begun.set_value();
  });
  server.start();
  std::mutex mutex;
  std::condition_variable changed;
  std::string seen;
  auto reader = std::async(std::launch::async, [&] {
    return streamed({.url = server.url() + "/stream"}, [&](std::string_view bytes) {
      const std::lock_guard lock(mutex);
      seen += bytes;
      changed.notify_all();
      return true;
    });
  });
  begun.get_future().wait();
  for (const std::string piece : {"one ", "two ", "three"}) {
    EXPECT_TRUE(held->write(piece));
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return seen.ends_with(piece); }));
  }
  held->end_stream();
  held.reset();
  EXPECT_EQ(reader.get().value().headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(seen, "one two three");
}

TEST(Server, AbandonedStreamIsCutNotEnded) {
  HttpServer server({});
  server.route_async("GET", "/stream", [](const Request&, ResponderPtr reply) {
    reply->begin_stream(200, "text/plain");
    reply->write("half");
  });
  server.start();
  const auto result = streamed({.url = server.url() + "/stream"}, [](std::string_view) { return true; });
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().what(), HasSubstr("in the middle of its reply"));
}

TEST(Server, ReaderThatDoesNotReadIsDisconnected) {
  HttpServer server({});
  std::promise<size_t> written;
  server.route_async("GET", "/flood", [&](const Request&, ResponderPtr reply) {
    std::thread([&written, reply] {
      reply->begin_stream(200, "text/plain");
      size_t total = 0;
      const std::string piece(1 << 16, 'x');
      while (total < (size_t{256} << 20) && reply->write(piece)) total += piece.size();
      written.set_value(total);
    }).detach();
  });
  server.start();
  RawSocket socket(server.port());
  socket.send("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_LT(written.get_future().get(), size_t{64} << 20);
}

TEST(Server, DisconnectIsReportedWhileAReplyIsPending) {
  HttpServer server({});
  ResponderPtr held;
  std::promise<void> waiting, gone;
  server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) {
    reply->on_disconnect([&] { gone.set_value(); });
    held = std::move(reply);
    waiting.set_value();
  });
  server.start();
  RawSocket socket(server.port());
  socket.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  waiting.get_future().wait();
  EXPECT_TRUE(held->connected());
  socket.close();
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_FALSE(held->connected());
  held->send(Response::text("too late"));
  held.reset();
}

TEST(Server, TwoHundredAtOnce) {
  HttpServer server(with([](auto& o) { o.io_threads = 2; }));
  std::mutex mutex;
  std::vector<ResponderPtr> waiting;
  server.route_async("POST", "/barrier", [&](const Request& request, ResponderPtr reply) {
    std::vector<ResponderPtr> ready;
    {
      const std::lock_guard lock(mutex);
      waiting.push_back(std::move(reply));
      if (waiting.size() == 200) ready.swap(waiting);
    }
    for (const auto& one : ready) one->send(Response::text("all here"));
  });
  add_echo(server);
  server.start();
  HttpClient client;
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i) {
    threads.emplace_back([&, i] {
      const auto reply = client.request("POST", server.url() + "/barrier", "x");
      const auto echo = client.request("POST", server.url() + "/echo", std::to_string(i));
      if (reply.ok() && reply.value().body == "all here" && echo.ok() && echo.value().body == std::to_string(i)) ++good;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 200);
}

TEST(Server, StopUnderLoadAnswersWhatItTookAndRefusesTheRest) {
  auto server = std::make_unique<HttpServer>(ServerOptions{});
  std::latch inside(4);
  std::promise<void> release;
  const auto released = release.get_future().share();
  server->route("POST", "/work", [&](const Request& request) {
    inside.count_down();
    released.wait();
    return Response::text(request.body);
  });
  server->start();
  const std::string url = server->url() + "/work";
  std::vector<std::future<Result<Response>>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(std::async(std::launch::async, [url] { return HttpClient().request("POST", url, "x"); }));
  }
  inside.wait();
  RawSocket idle(server->port());
  auto stopping = std::async(std::launch::async, [&] { server->stop(30); });
  EXPECT_EQ(idle.read_all(), "");  // idle connections are closed at once
  EXPECT_TRUE(idle.closed());
  release.set_value();
  stopping.get();
  for (auto& call : calls) {
    const auto reply = call.get().value();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers.at("connection"), "close");
  }
  const auto refused = HttpClient().get(url);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind(), ErrorKind::kUnavailable);
}

TEST(Server, ResponderMayOutliveTheServer) {
  ResponderPtr held;
  {
    HttpServer server({});
    std::promise<void> waiting;
    server.route_async("GET", "/wait", [&](const Request&, ResponderPtr reply) {
      held = std::move(reply);
      waiting.set_value();
    });
    server.start();
    RawSocket socket(server.port());
    socket.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    waiting.get_future().wait();
    server.stop(0);
  }
  EXPECT_FALSE(held->connected());
  held->send(Response::text("nobody listens"));
}

TEST(Server, AStoppedServerHasLeftItsPort) {
  HttpServer first({});
  const int port = first.port();
  add_echo(first);
  first.start();
  first.stop(0);
  std::vector<std::unique_ptr<HttpServer>> stopped;
  for (int i = 0; i < 20; ++i) {
    stopped.push_back(std::make_unique<HttpServer>(with([&](auto& o) { o.port = port; })));
    stopped.back()->start();
    stopped.back()->stop(0);
  }
}

TEST(Server, ChildProcessesDoNotKeepThePort) {
  auto server = std::make_unique<HttpServer>(ServerOptions{});
  const int port = server->port();
  ProcessOptions options;
  options.argv = {"cat", "/dev/zero"};
  options.stdout_file = "/dev/null";
  ChildProcess child(options);
  server.reset();
  EXPECT_NO_THROW(HttpServer(with([&](auto& o) { o.port = port; })));
}

}  // namespace
}  // namespace tritonforge::net
