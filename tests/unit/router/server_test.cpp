#include "router/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "net/async_client.h"
#include "unit/net/raw_socket.h"
#include "unit/router/fleet.h"

namespace tritonforge::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Mode = MockWorker::Mode;

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

// As one that is stopped, or whose scheduler is stuck: its connections stay, and no byte comes.
TEST(Router, WhatAnEngineThatHangsWasAskedIsAskedOfAnother) {
  RouterOptions options;
  options.silence_timeout_s = 0.2;
  Fleet fleet(2, "round_robin", {}, "", options);
  fleet[0].mode = fleet[1].mode = MockWorker::Mode::kHold;
  auto reply = fleet.generate();
  while (fleet[0].generated + fleet[1].generated == 0) std::this_thread::yield();
  MockWorker& hangs = fleet[fleet[0].generated == 1 ? 0 : 1];
  MockWorker& other = fleet[fleet[0].generated == 1 ? 1 : 0];
  other.mode = MockWorker::Mode::kAnswer;
  hangs.healthy = false;
  const Deadline deadline = Deadline::after(10);
  while (reply.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready && !deadline.expired())
    fleet.router->check_health();
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(other.generated, 1);
  for (auto& held : hangs.take_held()) held->send(net::Response::text("too late"));
  EXPECT_EQ(reply.get().value().headers.at("x-worker"), other.url());
}

TEST(Router, AStreamThatGoesOnIsCutOnlyOnceItIsSilent) {
  RouterOptions options;
  options.silence_timeout_s = 0.3;
  Fleet fleet(1, "round_robin", {}, "", options);
  fleet[0].mode = MockWorker::Mode::kStreamByHand;
  fleet[0].healthy = false;
  auto reply = fleet.generate();
  wait_for(fleet[0].generated, 1);
  const auto stream = fleet[0].take_held().front();
  const auto since = Clock::now();
  while (seconds_since(since) < 3 * options.silence_timeout_s) {
    ASSERT_TRUE(stream->write(net::sse_event("a token")));
    fleet.router->check_health();
    ASSERT_NE(reply.wait_for(std::chrono::milliseconds(20)), std::future_status::ready);
  }
  const Deadline deadline = Deadline::after(10);
  while (reply.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready && !deadline.expired())
    fleet.router->check_health();
  EXPECT_FALSE(deadline.expired());
  stream->end_stream();
  EXPECT_THAT(reply.get().error().what(), HasSubstr("in the middle of its reply"));
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
