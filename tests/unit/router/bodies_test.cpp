// Bodies that a router passes on: whole ones, streams, what ends half way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "net/async_client.h"
#include "unit/net/raw_socket.h"
#include "unit/net/streamed.h"
#include "unit/router/fleet.h"

namespace tritonforge::router {
namespace {

using ::testing::HasSubstr;
using Mode = MockWorker::Mode;

net::AsyncRequest generation(const Fleet& fleet, const std::string& body) {
  return {
      .method = "POST", .url = fleet.server->url() + "/generate", .body = std::make_shared<const std::string>(body)};
}

TEST(Router, HeadSaysHowLongTheWorkersBodyWouldBe) {
  Fleet fleet(1);
  const std::string path = "/get_model_info";
  const auto head = fleet.client.request("HEAD", fleet.server->url() + path, "").value();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"),
            fleet.client.get(fleet.server->url() + path).value().headers.at("content-length"));
  EXPECT_EQ(head.body, "");
}

TEST(Router, AReplyThatNobodyCouldHoldIsRefusedAtItsHead) {
  const net::Listening worker;
  std::thread answers([&] {
    for (int peer = worker.accept(); peer >= 0; peer = worker.accept()) {
      char request[4096];
      ::recv(peer, request, sizeof request, 0);
      constexpr std::string_view kHead =
          "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999\r\n\r\nthe first of them";
      ::send(peer, kHead.data(), kHead.size(), MSG_NOSIGNAL);
      ::recv(peer, request, sizeof request, 0);  // until it is hung up on
      ::close(peer);
    }
  });
  {
    Fleet fleet(0);
    fleet.router->registry().add(fmt::format("http://127.0.0.1:{}", worker.port));
    const net::ClientOptions patience{.timeout_s = 20, .headers = {{"x-timeout-s", "3"}}};
    const auto reply = fleet.client.request("POST", fleet.server->url() + "/generate", "{}", "application/json",
                                            &patience);
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->status, 503);
    EXPECT_THAT(reply->body, HasSubstr("a reply of more than 1073741824 bytes"));
  }
  worker.end();
  answers.join();
}

TEST(Router, AStreamPassesThroughPieceByPiece) {
  Fleet fleet(1);
  fleet[0].mode = Mode::kStreamByHand;
  std::mutex mutex;
  std::condition_variable changed;
  std::string seen;
  auto reader = std::async(std::launch::async, [&] {
    return net::streamed(generation(fleet, R"({"stream": true})"), [&](std::string_view bytes) {
      const std::lock_guard lock(mutex);
      seen += bytes;
      changed.notify_all();
      return true;
    });
  });
  wait_for(fleet[0].generated, 1);
  auto held = fleet[0].take_held();
  for (int i = 0; i < 5; ++i) {
    const std::string event = net::sse_event(std::to_string(i));
    held[0]->write(event);
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return seen.ends_with(event); }));
  }
  held[0]->end_stream();
  EXPECT_EQ(reader.get().value().headers.at("content-type"), "text/event-stream");
}

TEST(Router, AStreamWhoseWorkerDiesIsCutForTheClientToo) {
  Fleet fleet(2);
  fleet[0].mode = fleet[1].mode = Mode::kStreamByHand;
  std::promise<void> first_byte;
  auto reader = std::async(std::launch::async, [&] {
    return net::streamed(generation(fleet, "{}"), [&](std::string_view) {
      first_byte.set_value();
      return true;
    });
  });
  while (fleet[0].generated + fleet[1].generated == 0) std::this_thread::yield();
  const int worker = fleet[0].generated ? 0 : 1;
  auto held = fleet[worker].take_held();
  held[0]->write(net::sse_event("1"));
  first_byte.get_future().wait();
  held.clear();  // the worker cuts its stream
  const auto result = reader.get();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().what(), HasSubstr("in the middle of its reply"));
  EXPECT_EQ(fleet[1 - worker].generated, 0);
}

TEST(Router, AClientThatLeavesIsHungUpOnUpstream) {
  Fleet fleet(1);
  fleet[0].mode = Mode::kHold;
  net::AsyncClient client;
  const auto call = client.send(
      {.method = "POST", .url = fleet.server->url() + "/generate"},
      {[](int, const net::Headers&) {}, [](std::string_view) { return true; }, [](std::optional<Error>, bool) {}});
  wait_for(fleet[0].generated, 1);
  call->cancel();
  wait_for(fleet[0].disconnects, 1);
  fleet[0].take_held();
  while (fleet.router->registry().all()[0]->load() != 0) std::this_thread::yield();
}

TEST(Router, PipelinedAndChunkedRequestsPassInOrder) {
  Fleet fleet(1);
  net::RawSocket socket(fleet.port());
  socket.send(
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n5\r\n "
      "more\r\n0\r\n\r\n"
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\ntwo"
      "POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nthree");
  const std::string got = socket.read_all();
  const size_t one = got.find("\"one more\""), two = got.find("\"two\""), three = got.find("\"three\"");
  EXPECT_LT(one, two);
  EXPECT_LT(two, three);
  EXPECT_NE(three, std::string::npos);
}

TEST(Router, AStreamWhoseClientDoesNotReadEnds) {
  Fleet fleet(1);
  fleet[0].mode = Mode::kStreamByHand;
  net::RawSocket socket(fleet.port());
  socket.send("POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
  wait_for(fleet[0].generated, 1);
  auto held = fleet[0].take_held();
  const std::string piece(1 << 16, 'x');
  size_t written = 0;
  while (held[0]->write(piece)) {  // until router and engine have the most that they keep
    written += piece.size();
    ASSERT_LT(written, size_t{1} << 30);
  }
  held.clear();
  while (fleet.router->registry().all()[0]->load() != 0) std::this_thread::yield();
}

}  // namespace
}  // namespace tritonforge::router
