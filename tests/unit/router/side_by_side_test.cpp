// What two routers side by side must agree on, and how: the list and the barrier come from whoever runs them, and a
// session's or prompt's worker is a function of the list alone.
#include <gtest/gtest.h>

#include <map>

#include "unit/router/fleet.h"

namespace tritonforge::router {
namespace {

using Homes = std::map<int, std::string>;  // by session, the worker that answered
constexpr int kSessions = 40;

// The fleet's router, and a second one that learnt of the same workers in another order.
struct Pair {
  Pair() {
    RouterOptions options;
    options.policy = "consistent_hash";
    options.health_interval_s = 0;
    for (int i = 3; i >= 0; --i) options.workers.push_back(fleet[i].url());
    second = std::make_unique<Router>(options);
    second_server = std::make_unique<RouterServer>(*second, net::ServerOptions{});
    second_server->start();
    second->check_health();
  }
  std::vector<std::string> urls() const { return {fleet.server->url(), second_server->url()}; }
  net::Response generate(const std::string& router, int session) {
    return fleet.client.post(router + "/generate", {{"text", "x"}, {"session_id", session}}).value();
  }
  Homes homes(const std::string& router) {
    Homes homes;
    for (int session = 0; session < kSessions; ++session)
      homes[session] = generate(router, session).headers.at("x-worker");
    return homes;
  }
  int index_of(const std::string& url) {
    int i = 0;
    while (fleet[i].url() != url) ++i;
    return i;
  }
  Fleet fleet{4, "consistent_hash"};
  std::unique_ptr<Router> second;
  std::unique_ptr<RouterServer> second_server;
};

TEST(Router, TwoSideBySideSendASessionToTheSameWorker) {
  Pair pair;
  EXPECT_EQ(pair.homes(pair.urls()[0]), pair.homes(pair.urls()[1]));
}

TEST(Router, WhoseRouterIsGoneFindsItsSessionsThroughTheOther) {
  Pair pair;
  const auto [first, second] = std::pair(pair.urls()[0], pair.urls()[1]);
  const Homes before = pair.homes(first);
  MockWorker& worker = pair.fleet[pair.index_of(before.at(0))];
  worker.mode = MockWorker::Mode::kHold;
  const int served = worker.generated;
  auto under_way = pair.fleet.generate({{"text", "x"}, {"session_id", 0}});
  wait_for(worker.generated, served + 1);
  pair.fleet.server->stop(0);
  EXPECT_FALSE(under_way.get().ok());  // cut, to be asked again
  EXPECT_FALSE(pair.fleet.client.post(first + "/generate", {{"text", "x"}, {"session_id", 0}}).ok());
  worker.mode = MockWorker::Mode::kAnswer;
  EXPECT_EQ(pair.homes(second), before);
}

TEST(Router, ADeadWorkerMovesItsOwnSessionsAloneAtBothOfTwo) {
  Pair pair;
  const Homes before = pair.homes(pair.urls()[0]);
  const int dead = pair.index_of(before.at(0));
  pair.fleet[dead].kill();
  const Homes after = pair.homes(pair.urls()[0]);
  EXPECT_EQ(pair.homes(pair.urls()[1]), after);  // those that moved, too, are together
  for (const auto& [session, worker] : before) {
    if (worker == before.at(0)) EXPECT_NE(after.at(session), worker) << session;
    else EXPECT_EQ(after.at(session), worker) << session;
  }
  pair.fleet.restart(dead);
  for (const std::string& router : pair.urls())
    EXPECT_EQ(pair.fleet.client.post(router + "/add_worker?url=" + before.at(0), Json()).value().status, 200);
  for (Router* router : {pair.fleet.router.get(), pair.second.get()})
    router->check_health();  // nobody waits for theirs
  for (const std::string& router : pair.urls()) EXPECT_EQ(pair.homes(router), before);
}

TEST(Router, ABarrierThatTwoAreToldHoldsAtBoth) {
  Pair pair;
  const Homes before = pair.homes(pair.urls()[0]);
  for (const std::string& router : pair.urls()) {
    EXPECT_EQ(pair.fleet.client.post(router + "/weight_barrier", {{"min_weight_version", 5}}).value().status, 200);
    EXPECT_EQ(pair.fleet.client.get_json(router + "/weight_barrier").value()["min_weight_version"], 5);
    EXPECT_EQ(pair.generate(router, 0).status, 503);
  }
  // The one engine with the new weights takes all, from both.
  const int fresh = pair.index_of(before.at(0));
  pair.fleet[fresh].weight_version = 5;
  for (const std::string& router : pair.urls()) {
    for (const auto& [session, worker] : pair.homes(router)) EXPECT_EQ(worker, before.at(0)) << session;
  }
  for (int i = 0; i < 4; ++i) pair.fleet[i].weight_version = 5;
  for (const std::string& router : pair.urls()) EXPECT_EQ(pair.homes(router), before);
}

}  // namespace
}  // namespace tritonforge::router
