#include "router/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <thread>

#include "base/process.h"
#include "net/async_client.h"
#include "unit/net/raw_socket.h"
#include "unit/net/streamed.h"
#include "unit/router/mock_worker.h"

namespace tritonforge::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Mode = MockWorker::Mode;

struct Fleet {
  explicit Fleet(int n, const std::string& policy = "least_loaded", const net::ServerOptions& http = {},
                 const std::string& worker_api_key = "", RouterOptions options = {}) {
    options.worker_api_key = worker_api_key;
    options.policy = policy;
    options.health_interval_s = 0;  // tests call check_health()
    for (int i = 0; i < n; ++i) {
      workers.push_back(std::make_unique<MockWorker>());
      options.workers.push_back(workers.back()->url());
    }
    router = std::make_unique<Router>(options);
    server = std::make_unique<RouterServer>(*router, http);
    server->start();
    router->check_health();
  }
  void restart(int i) {  // on its port, and nobody tells the router
    const std::string url = (*this)[i].url();
    workers[static_cast<size_t>(i)] = std::make_unique<MockWorker>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
  int port() const { return std::stoi(server->url().substr(server->url().rfind(':') + 1)); }
  MockWorker& operator[](int i) { return *workers[static_cast<size_t>(i)]; }
  WorkerState state(int i) { return router->registry().all()[static_cast<size_t>(i)]->state(); }
  std::future<Result<net::Response>> generate(Json body = {{"text", "x"}}) {
    return std::async(std::launch::async, [this, body] { return client.post(server->url() + "/generate", body); });
  }
  std::vector<std::unique_ptr<MockWorker>> workers;
  std::unique_ptr<Router> router;
  std::unique_ptr<RouterServer> server;
  net::HttpClient client;
};

void wait_for(std::atomic<int>& value, int at_least) {
  for (int seen = value; seen < at_least; seen = value) value.wait(seen);
}

TEST(Router, LeastLoadedGoesWhereNothingWaits) {
  Fleet fleet(3);
  for (int i = 0; i < 3; ++i) fleet[i].mode = Mode::kHold;
  std::vector<std::future<Result<net::Response>>> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(fleet.generate());
    while (fleet[0].generated + fleet[1].generated + fleet[2].generated <= i) std::this_thread::yield();
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fleet[i].generated, 2) << i;
  for (auto& reply : fleet[1].take_held()) reply->send(net::Response::text("done"));
  while (fleet.router->registry().all()[1]->load() != 0) std::this_thread::yield();
  for (int i = 0; i < 2; ++i) calls.push_back(fleet.generate());
  wait_for(fleet[1].generated, 4);
  for (int i = 0; i < 3; ++i) {
    for (auto& reply : fleet[i].take_held()) reply->send(net::Response::text("done"));
  }
  for (auto& call : calls) EXPECT_EQ(call.get().value().body, "done");
}

TEST(Router, RoundRobinTakesTurns) {
  Fleet fleet(3, "round_robin");
  for (int i = 0; i < 9; ++i) EXPECT_EQ(fleet.generate().get().value().status, 200);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fleet[i].generated, 3);
}

TEST(Router, AWorkerKilledInMidFlightIsReplaced) {
  Fleet fleet(2);
  fleet[0].mode = fleet[1].mode = Mode::kHold;
  auto call = fleet.generate();
  while (fleet[0].generated + fleet[1].generated == 0) std::this_thread::yield();
  const int first = fleet[0].generated ? 0 : 1;
  fleet[1 - first].mode = Mode::kAnswer;
  fleet[first].kill();
  const auto reply = call.get().value();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("x-worker"), fleet[1 - first].url());
  EXPECT_EQ(fleet.state(first), WorkerState::kYellow);
  fleet[first].take_held();
}

TEST(Router, ABusyWorkerIsPassedOverAndTheLastOneSpeaks) {
  Fleet fleet(2, "round_robin");
  fleet[0].mode = Mode::kBusy;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet.state(0), WorkerState::kGreen);  // busy is not broken
  fleet[1].mode = Mode::kBusy;
  const auto reply = fleet.generate().get().value();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("queue is full"));
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
}

TEST(Router, NothingIsAnsweredFromWeightsBelowTheBarrier) {
  Fleet fleet(2);
  fleet[1].weight_version = 5;
  EXPECT_EQ(fleet.client.get_json(fleet.server->url() + "/weight_barrier").value()["min_weight_version"], 0);
  EXPECT_EQ(fleet.client.post(fleet.server->url() + "/weight_barrier", {{"min_weight_version", 5}}).value().status,
            200);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet[0].generated, 0);  // a fresh engine, green as it is
  EXPECT_EQ(fleet[1].generated, 4);
  const net::ClientOptions newer{.headers = {{"x-min-weight-version", "7"}}};  // a client may ask for more
  const auto asked = [&](const net::ClientOptions& options) {
    return fleet.client.request("POST", fleet.server->url() + "/generate", "{}", "application/json", &options)->status;
  };
  EXPECT_EQ(asked(newer), 503);
  EXPECT_EQ(asked({.headers = {{"x-min-weight-version", "3"}}}), 200);
  fleet[1].weight_version = 0;  // it was restarted, and nobody has noticed
  const auto refused = fleet.generate().get().value();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("the weights here are older"));
  EXPECT_EQ(fleet[1].generated, 5);
  EXPECT_EQ(fleet.client.post(fleet.server->url() + "/weight_barrier", {{"min_weight_version", -1}}).value().status,
            400);
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

TEST(Router, AllDownNamesThemAll) {
  Fleet fleet(2);
  fleet[0].kill();
  fleet[1].kill();
  const auto reply = fleet.generate().get().value();
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr(fleet[0].url()));
  EXPECT_THAT(reply.body, HasSubstr(fleet[1].url()));
  for (int i = 0; i < 3; ++i) fleet.router->check_health();
  EXPECT_EQ(fleet.client.get(fleet.server->url() + "/health").value().status, 503);
  EXPECT_THAT(fleet.generate().get().value().body, HasSubstr("is red"));
}

TEST(Router, WhatOneClientSaysWrongIsNoWorkersFault) {
  Fleet fleet(2);
  for (int i = 0; i < 4; ++i) {
    net::RawSocket socket(fleet.port());
    socket.send("GET .elsewhere/generate HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.half_close();
    EXPECT_THAT(socket.read_all(), HasSubstr("is no path"));
  }
  EXPECT_EQ(fleet.state(0), WorkerState::kGreen);
  EXPECT_EQ(fleet.state(1), WorkerState::kGreen);
}

TEST(Router, MetricsAreOfTheWorkersThatThereAre) {
  Fleet fleet(2);
  fleet[0].kill();
  fleet[1].kill();
  EXPECT_EQ(fleet.generate().get().value().status, 503);
  const std::string url = fleet.server->url();
  const auto text = [&] { return fleet.client.get(url + "/metrics").value().body; };
  EXPECT_THAT(text(), HasSubstr("tritonforge_router_retries_total 1\n"));  // the second one was asked, nobody after it
  EXPECT_THAT(text(), HasSubstr("worker_up{worker=\"" + fleet[1].url()));
  fleet.router->registry().remove(fleet[1].url());
  EXPECT_THAT(text(), HasSubstr("worker_up{worker=\"" + fleet[0].url()));
  EXPECT_THAT(text(), Not(HasSubstr(fleet[1].url())));
}

TEST(Router, NoWorkerAtAllSaysHowToAddOne) {
  Fleet fleet(0);
  EXPECT_THAT(fleet.generate().get().value().body, HasSubstr("/add_worker"));
  EXPECT_EQ(fleet.client.get(fleet.server->url() + "/health").value().status, 200);
}

TEST(Router, RedAfterThreeFailuresAndBackWhenHealthy) {
  Fleet fleet(2);
  fleet[0].healthy = false;
  fleet.router->check_health();
  EXPECT_EQ(fleet.state(0), WorkerState::kYellow);  // the checker's own first round may be the second failure
  fleet.router->check_health();
  fleet.router->check_health();
  EXPECT_EQ(fleet.state(0), WorkerState::kRed);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet[0].generated, 0);
  fleet[0].healthy = true;
  fleet.router->check_health();
  EXPECT_EQ(fleet.state(0), WorkerState::kGreen);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(fleet.generate().get().ok());
  EXPECT_EQ(fleet[0].generated, 1);
}

net::AsyncRequest generation(const Fleet& fleet, const std::string& body) {
  return {
      .method = "POST", .url = fleet.server->url() + "/generate", .body = std::make_shared<const std::string>(body)};
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

TEST(Router, ASessionStaysWithItsWorkerWhileItLives) {
  Fleet fleet(3);
  const auto worker_of = [&](const Json& body) { return fleet.generate(body).get().value().headers.at("x-worker"); };
  std::map<std::string, std::string> home;
  for (int round = 0; round < 3; ++round) {
    for (const std::string session : {"a", "b", "c"}) {
      const auto worker = worker_of({{"text", "x"}, {"session_id", session}});
      EXPECT_EQ(home.try_emplace(session, worker).first->second, worker);
    }
  }
  for (int i = 0; i < 3; ++i) {
    if (fleet[i].url() == home["a"]) fleet[i].kill();
  }
  const auto moved = worker_of({{"session_id", "a"}});
  EXPECT_NE(moved, home["a"]);
  EXPECT_EQ(worker_of({{"session_id", "a"}}), moved);
}

TEST(Router, AFlappingEngineGetsOneRequestAtATimeUntilOneIsAnswered) {
  RouterOptions options;
  options.failures_until_red = 1;
  options.breaker_open_s = 1e-6;  // half-open by the next request
  Fleet fleet(2, "round_robin", {}, "", options);
  fleet[0].kill();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet.state(0), WorkerState::kRed);
  fleet.restart(0);
  fleet.router->check_health();  // it says that it is well, as it did before
  EXPECT_EQ(fleet.state(0), WorkerState::kRed);
  // The probe goes there and is held; others go elsewhere meanwhile.
  fleet[0].mode = Mode::kHold;
  auto probe = fleet.generate();
  wait_for(fleet[0].generated, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fleet.generate().get().value().headers.at("x-worker"), fleet[1].url());
  for (auto& reply : fleet[0].take_held()) reply->send(net::Response::text("done"));
  EXPECT_EQ(probe.get().value().body, "done");
  EXPECT_EQ(fleet.state(0), WorkerState::kGreen);
}

TEST(Router, AProbeWhoseClientLeftIsNotTheLastOne) {
  RouterOptions options;
  options.failures_until_red = 1;
  options.breaker_open_s = 1e-6;
  Fleet fleet(1, "least_loaded", {}, "", options);
  fleet[0].kill();
  EXPECT_EQ(fleet.generate().get().value().status, 503);
  fleet.restart(0);
  fleet.router->check_health();
  fleet[0].mode = Mode::kHold;
  net::HttpClient hurried({.headers = {{"x-timeout-s", "0.02"}}});
  EXPECT_EQ(hurried.post(fleet.server->url() + "/generate", Json::object()).value().status, 504);
  fleet[0].take_held();
  fleet[0].mode = Mode::kAnswer;
  EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet.state(0), WorkerState::kGreen);
}

TEST(Router, ASlowEngineIsSparedByThePoliciesOfLoad) {
  for (const std::string policy : {"least_loaded", "least_tokens", "power_of_two", "cache_aware"}) {
    Fleet fleet(2, policy);
    fleet[0].mode = Mode::kHold;
    std::vector<std::future<Result<net::Response>>> held;
    while (fleet[0].generated == 0) {
      held.push_back(fleet.generate());
      while (fleet[0].generated + fleet[1].generated < static_cast<int>(held.size())) std::this_thread::yield();
    }
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(fleet.generate().get().value().headers.at("x-worker"), fleet[1].url()) << policy;
    for (auto& reply : fleet[0].take_held()) reply->send(net::Response::text("done"));
    for (auto& call : held) EXPECT_EQ(call.get().value().status, 200);
  }
}

TEST(Router, ADrainedWorkerEndsWhatItHasAndGetsNothingNew) {
  Fleet fleet(2);
  fleet[0].mode = fleet[1].mode = Mode::kHold;
  auto call = fleet.generate({{"session_id", "s"}});
  while (fleet[0].generated + fleet[1].generated == 0) std::this_thread::yield();
  const int first = fleet[0].generated ? 0 : 1;
  fleet[1 - first].mode = Mode::kAnswer;
  const std::string base = fleet.server->url();
  const auto drained = fleet.client.post_json(base + "/drain_worker", {{"url", fleet[first].url()}}).value();
  EXPECT_EQ(drained["load"], 1);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(fleet.generate({{"session_id", "s"}}).get().value().headers.at("x-worker"), fleet[1 - first].url());
  EXPECT_EQ(fleet.client.get_json(base + "/workers").value()["workers"][first]["draining"], true);
  for (auto& reply : fleet[first].take_held()) reply->send(net::Response::text("done"));
  EXPECT_EQ(call.get().value().body, "done");
  // Weights still reach it; with nobody else in service the refusal says why; registered again it serves.
  EXPECT_EQ(fleet.client.post(base + "/update_weights_from_disk", {{"weight_version", "4"}}).value().status, 200);
  EXPECT_EQ(fleet[first].updates, 1);
  fleet.client.post_json(base + "/drain_worker", {{"url", fleet[1 - first].url()}}).value();
  EXPECT_THAT(fleet.generate().get().value().body, HasSubstr("is draining"));
  fleet[first].mode = Mode::kAnswer;
  fleet.client.post_json(base + "/add_worker", {{"url", fleet[first].url()}}).value();
  EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet.client.post(base + "/drain_worker", {{"url", "http://127.0.0.1:1"}}).value().status, 404);
}

TEST(Router, TrainingWaitsBeforeEvaluationAndAFullQueueIsSaid) {
  RouterOptions options;
  options.admission.max_running = 1;
  options.admission.max_waiting = 2;
  Fleet fleet(1, "least_loaded", {}, "", options);
  fleet[0].mode = Mode::kHold;
  const auto ask = [&](const std::string& priority) {
    return std::async(std::launch::async, [&fleet, priority] {
      net::HttpClient client({.headers = {{"x-priority", priority}}});
      return client.post(fleet.server->url() + "/generate", {{"text", priority}}).value();
    });
  };
  const auto waiting = [&](size_t n) {
    while (fleet.router->waiting() != n) std::this_thread::yield();
  };
  auto running = ask("evaluation");
  wait_for(fleet[0].generated, 1);
  auto evaluation = ask("evaluation");
  waiting(1);
  auto training = ask("training");
  waiting(2);
  const auto refused = ask("evaluation").get();
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("1 requests are under way and 2 wait"));
  EXPECT_EQ(ask("urgent").get().status, 400);
  // Another of training takes the place of the evaluation that waits.
  auto second = ask("training");
  EXPECT_EQ(evaluation.get().status, 429);
  fleet[0].mode = Mode::kAnswer;
  for (auto& reply : fleet[0].take_held()) reply->send(net::Response::text("done"));
  EXPECT_EQ(running.get().status, 200);
  EXPECT_EQ(training.get().status, 200);
  EXPECT_EQ(second.get().status, 200);
}

TEST(Router, AClientThatLeavesTheQueueLeavesItsPlace) {
  RouterOptions options;
  options.admission.max_running = 1;
  Fleet fleet(1, "least_loaded", {}, "", options);
  fleet[0].mode = Mode::kHold;
  auto running = fleet.generate();
  wait_for(fleet[0].generated, 1);
  net::AsyncClient client;
  const auto call = client.send(
      {.method = "POST", .url = fleet.server->url() + "/generate"},
      {[](int, const net::Headers&) {}, [](std::string_view) { return true; }, [](std::optional<Error>, bool) {}});
  while (fleet.router->waiting() != 1) std::this_thread::yield();
  call->cancel();
  while (fleet.router->waiting() != 0) std::this_thread::yield();
  for (auto& reply : fleet[0].take_held()) reply->send(net::Response::text("done"));
  EXPECT_EQ(running.get().value().status, 200);
  EXPECT_EQ(fleet[0].generated, 1);
}

TEST(Router, AnEmptyBucketSaysWhenToComeAgain) {
  RouterOptions options;
  options.admission.evaluation_rate = 0.01;
  options.admission.burst = 1;
  Fleet fleet(1, "least_loaded", {}, "", options);
  net::HttpClient client({.headers = {{"x-priority", "evaluation"}}});
  EXPECT_EQ(client.post(fleet.server->url() + "/generate", Json::object()).value().status, 200);
  const auto refused = client.post(fleet.server->url() + "/generate", Json::object()).value();
  EXPECT_EQ(refused.status, 429);
  EXPECT_GT(std::stoi(refused.headers.at("retry-after")), 90);
  EXPECT_EQ(fleet.generate().get().value().status, 200);
}

// What two routers side by side must agree on, and how: the list and the barrier come from whoever runs them, and a
// session's or prompt's worker is a function of the list alone.
TEST(Router, TwoSideBySideSendASessionToTheSameWorker) {
  Fleet fleet(4, "consistent_hash");
  RouterOptions options;
  options.policy = "consistent_hash";
  options.health_interval_s = 0;
  for (int i = 3; i >= 0; --i) options.workers.push_back(fleet[i].url());
  Router second(options);
  RouterServer server(second, {});
  server.start();
  second.check_health();
  for (int i = 0; i < 20; ++i) {
    const Json body = {{"text", "x"}, {"session_id", i}};
    EXPECT_EQ(fleet.client.post(server.url() + "/generate", body).value().headers.at("x-worker"),
              fleet.generate(body).get().value().headers.at("x-worker"));
  }
}

TEST(Router, FanOutReachesAllAndReportsEach) {
  Fleet fleet(3);
  const auto update = [&] {
    return fleet.client.post(fleet.server->url() + "/update_weights_from_disk", {{"weight_version", "4"}}).value();
  };
  const auto good = update();
  EXPECT_EQ(good.status, 200);
  const Json all = Json::parse(good.body);
  EXPECT_TRUE(all["success"].get<bool>());
  EXPECT_EQ(all["workers"].size(), 3u);
  EXPECT_EQ(all["workers"][fleet[2].url()]["weight_version"], "4");
  fleet[1].refuse_update = true;
  fleet[2].kill();
  const auto partial = update();
  EXPECT_EQ(partial.status, 502);
  const Json body = Json::parse(partial.body);
  EXPECT_FALSE(body["success"].get<bool>());
  EXPECT_EQ(body["workers"][fleet[0].url()]["success"], true);
  const auto message = body["error"]["message"].get<std::string>();
  EXPECT_THAT(message, HasSubstr("2 of 3 workers failed"));
  EXPECT_THAT(message, HasSubstr("checksum of lm_head differs"));
  EXPECT_THAT(message, HasSubstr(fleet[2].url()));
  EXPECT_EQ(fleet.state(1), WorkerState::kGreen);  // it answered
  EXPECT_EQ(fleet.state(2), WorkerState::kYellow);
}

TEST(Router, WorkersComeAndGo) {
  Fleet fleet(0);
  MockWorker worker;
  const std::string base = fleet.server->url();
  EXPECT_EQ(fleet.client.post(base + "/add_worker?url=" + worker.url(), Json()).value().status, 200);
  EXPECT_EQ(fleet.client.post(base + "/add_worker", {{"url", worker.url() + "/"}}).value().status, 200);
  EXPECT_EQ(fleet.client.get_json(base + "/list_workers").value()["urls"], Json::array({worker.url()}));
  EXPECT_EQ(fleet.generate().get().value().status, 200);
  EXPECT_EQ(fleet.client.get_json(base + "/workers").value()["workers"][0]["served"], 1);
  EXPECT_THAT(fleet.client.get(base + "/metrics").value().body,
              HasSubstr("tritonforge_router_requests_total{worker=\"" + worker.url() + "\",status=\"200\"} 1"));
  EXPECT_EQ(fleet.client.post(base + "/add_worker?url=ftp://x", Json()).value().status, 422);
  EXPECT_EQ(fleet.client.post(base + "/remove_worker?url=http://127.0.0.1:1", Json()).value().status, 404);
  EXPECT_EQ(fleet.client.post(base + "/remove_worker?url=" + worker.url(), Json()).value().status, 200);
  EXPECT_EQ(fleet.generate().get().value().status, 503);
}

TEST(Router, ItsOwnKeyAndTheHeadersOfOneHopGoToNoWorker) {
  Fleet fleet(1, "least_loaded", {.api_key = "clients"});
  net::HttpClient client({.api_key = "clients", .headers = {{"te", "trailers"}}});
  const Json info = client.get_json(fleet.server->url() + "/get_model_info").value();
  EXPECT_EQ(info["authorization"], "");
  EXPECT_EQ(info["te"], "");
}

TEST(Router, AnyPathPassesWithItsQueryAndTheRightKey) {
  Fleet fleet(1, "least_loaded", {.api_key = "clients"}, "engines");
  net::HttpClient client({.api_key = "clients"});
  const Json info = client.get_json(fleet.server->url() + "/get_model_info?a=b%20c").value();
  EXPECT_EQ(info["authorization"], "Bearer engines");
  EXPECT_EQ(info["target"], "/get_model_info?a=b%20c");
  EXPECT_EQ(fleet.client.get(fleet.server->url() + "/get_model_info").value().status, 401);
  const auto unknown = client.get(fleet.server->url() + "/no_such").value();
  EXPECT_EQ(unknown.status, 404);  // the engine's own answer
}

TEST(Router, ItsOwnKeyGoesToNoWorkerTheClientsKeyDoes) {
  Fleet closed(1, "least_loaded", {.api_key = "clients"}), open(1);
  net::HttpClient client({.api_key = "clients"});
  EXPECT_EQ(client.get_json(closed.server->url() + "/get_model_info").value()["authorization"], "");
  EXPECT_EQ(client.get_json(open.server->url() + "/get_model_info").value()["authorization"], "Bearer clients");
}

TEST(Router, ItsOwnPagesReachAWorkerThatAnswersNoForeignOnes) {
  Fleet fleet(1);
  net::HttpClient page({.headers = {{"origin", fleet.server->url()}}}), foreign({.headers = {{"origin", "http://x"}}});
  EXPECT_EQ(page.post(fleet.server->url() + "/generate", Json::object()).value().status, 200);
  EXPECT_EQ(foreign.post(fleet.server->url() + "/generate", Json::object()).value().status, 403);
}

TEST(Router, DeadlineOfTheClientIsTheWorkers) {
  Fleet fleet(2);
  fleet[0].mode = fleet[1].mode = Mode::kHold;
  net::HttpClient hurried({.headers = {{"x-timeout-s", "0.05"}}});
  const auto reply = hurried.post(fleet.server->url() + "/generate", Json::object()).value();
  EXPECT_EQ(reply.status, 504);
  EXPECT_EQ(fleet[0].generated + fleet[1].generated, 1);
  fleet[0].take_held();
  fleet[1].take_held();
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

// Requests that wait are begun by whoever makes room, on another thread than their client's.
TEST(Router, TurnsPassBetweenThreads) {
  net::ServerOptions http;
  http.io_threads = 3;
  RouterOptions options;
  options.admission.max_running = 2;
  Fleet fleet(2, "cache_aware", http, "", options);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 9; ++t) {
    threads.emplace_back([&] {
      net::HttpClient client;
      for (int i = 0; i < 40; ++i) {
        const auto reply = client.post(fleet.server->url() + "/generate", {{"text", std::string(600, 'x')}});
        if (reply.ok() && reply.value().status == 200) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 360);
  EXPECT_EQ(fleet.router->waiting(), 0u);
}

TEST(Router, ManyAtOnceWhileAWorkerDies) {
  Fleet fleet(3);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      net::HttpClient client;
      for (int i = 0; i < 50; ++i) {
        const auto reply = client.post(fleet.server->url() + "/generate", {{"text", "x"}});
        if (reply.ok() && reply.value().status == 200) ++good;
        if (good == 100) fleet[2].kill();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

}  // namespace
}  // namespace tritonforge::router
