#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "orchestrate/delivery.h"
#include "unit/orchestrate/peers_fixture.h"

namespace tritonforge::orchestrate {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Engines behind a router, all of them the server of the test; `reply` is what engine-0 says to an update.
class EnginesTest : public PeersTest {
 protected:
  EnginesTest() : file(logs.path() / "w.safetensors") {
    write_file_atomic(file, "weights");
    route("POST", "/weight_barrier", [this](const net::Request& request) {
      order.push_back("barrier " + request.json().at("min_weight_version").dump());
      return net::Response::json(Json::object());
    });
    route("POST", "/add_worker", [this](const net::Request& request) {
      order.push_back("add " + request.json().at("url").get<std::string>());
      return net::Response::json(Json::object());
    });
  }
  static Json engine(const std::string& version, const std::string& sum) {
    return {{"success", true}, {"weight_version", version}, {"checksums", {{"norm", sum}}}};
  }
  void answer_with(std::function<net::Response(int round)> reply) {
    route("POST", "/update_weights_from_tensor", [this, reply](const net::Request& request) {
      order.push_back("update");
      requests.push_back(request.json());
      return reply(static_cast<int>(requests.size()));
    });
    http.start();
  }
  std::string error_of_install(Engines& engines) {
    try {
      engines.install({file, 4, {{"norm", "ab"}}});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
  fs::path file;
  std::vector<Json> requests;
  std::vector<std::string> order;
};

TEST_F(EnginesTest, AnEngineThatIsDownGetsTheWeightsOnceItIsBackAndThenTheBarrierRises) {
  answer_with([](int round) {
    if (round < 3) return net::Response::error(Error(ErrorKind::kUnavailable, "not yet"));
    return net::Response::json(engine("4", "ab"));
  });
  Engines engines(role("router"), {role("engine-0")}, {});
  EXPECT_TRUE(engines.wants(4));
  const auto installed = engines.install({file, 4, {{"norm", "ab"}}});
  ASSERT_EQ(installed.size(), 1u);
  EXPECT_EQ(installed[0].version, 4);
  EXPECT_EQ(requests[0].at("path"), file.string());
  EXPECT_EQ(requests[0].at("weight_version"), "4");
  EXPECT_THAT(order, ElementsAre("update", "update", "update", "barrier 4"));
  EXPECT_FALSE(engines.wants(4));
  EXPECT_FALSE(engines.wants(3));  // a trainer that went back does not take the engines with it
  EXPECT_TRUE(engines.wants(5));
}

TEST_F(EnginesTest, NobodyWantsWeightsBelowTheBarrier) {
  answer_with([](int) { return net::Response::json(engine("4", "ab")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  engines.require(4);
  EXPECT_FALSE(engines.wants(3));
  EXPECT_TRUE(engines.wants(4));
}

TEST_F(EnginesTest, AnEngineThatRefusesEndsItAtOnceByName) {
  answer_with([](int) { return net::Response::error(Error(ErrorKind::kCorrupt, "checksum of norm")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  EXPECT_THAT(error_of_install(engines), HasSubstr("engine-0: POST /update_weights_from_tensor: 422 checksum of norm"));
  EXPECT_EQ(requests.size(), 1u);
  EXPECT_THAT(order, ElementsAre("update"));  // no barrier that nobody can pass
}

TEST_F(EnginesTest, OtherWeightsThanThePublishersAreAnError) {
  answer_with([](int) { return net::Response::json(engine("4", "ff")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  EXPECT_THAT(error_of_install(engines), HasSubstr("tensor 'norm' is ff instead of ab"));
}

TEST_F(EnginesTest, AFreshEngineGetsTheNewestWeightsBeforeTheRouterKnowsIt) {
  answer_with([&](int) { return net::Response::json(engine("4", "ab")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  const auto never = [](int64_t) -> PublishedWeights { throw Error(ErrorKind::kInternal, "nothing is damaged"); };
  engines.bring_up(http.url(), never);  // nothing was published yet
  engines.install({file, 4, {{"norm", "ab"}}});
  engines.bring_up(http.url(), never);
  EXPECT_THAT(order, ElementsAre("add " + http.url(), "update", "barrier 4", "update", "add " + http.url()));
}

TEST_F(EnginesTest, WhatIsNoFileReachesAFreshEngine) {
  answer_with([&](int) { return net::Response::json(engine("4", "ab")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  PublishedWeights weights{{}, 4, {{"norm", "ab"}}};
  weights.group = GroupedWeights{.host = "10.0.0.1", .port = 7, .tp = 2, .dtype = "bfloat16", .plan = "0"};
  engines.install(weights);
  engines.bring_up(http.url(), [](int64_t) -> PublishedWeights { throw Error(ErrorKind::kInternal, "it is there"); });
  ASSERT_EQ(requests.size(), 2u);
  for (const Json& request : requests) EXPECT_EQ(request.at("group"), to_json(*weights.group));
}

TEST_F(EnginesTest, WeightsThatAreDamagedArePublishedAgain) {
  answer_with([](int round) {
    if (round == 2) return net::Response::error(Error(ErrorKind::kCorrupt, "checksum of norm"));
    return net::Response::json(engine("4", round == 1 ? "ab" : "cd"));
  });
  Engines engines(role("router"), {role("engine-0")}, {});
  engines.install({file, 4, {{"norm", "ab"}}});
  std::vector<int64_t> again;
  engines.bring_up(http.url(), [&](int64_t version) {
    again.push_back(version);
    return PublishedWeights{file, version, {{"norm", "cd"}}};
  });
  EXPECT_THAT(again, ElementsAre(4));
  EXPECT_EQ(requests.at(2).at("checksums").at("norm"), "cd");
}

TEST_F(EnginesTest, ATrainerThatWentBackIsWaitedForUntilItHasTheWeightsAgain) {
  answer_with([](int round) {
    if (round == 2) return net::Response::error(Error(ErrorKind::kNotFound, "no such file"));
    return net::Response::json(engine("4", round == 1 ? "ab" : "cd"));
  });
  Engines engines(role("router"), {role("engine-0")}, {});
  engines.install({file, 4, {{"norm", "ab"}}});
  int asked = 0;
  engines.bring_up(http.url(), [&](int64_t version) {
    if (++asked < 3) throw RolledBack("the trainer has step 1");
    return PublishedWeights{file, version, {{"norm", "cd"}}};
  });
  EXPECT_EQ(asked, 3);
  EXPECT_THAT(order, ElementsAre("update", "barrier 4", "update", "update", "add " + http.url()));
}

TEST_F(EnginesTest, ATrainerThatIsPastDamagedWeightsIsNotWaitedForOnceNewerOnesCame) {
  answer_with([this](int round) {
    if (round == 2) return net::Response::error(Error(ErrorKind::kNotFound, "no such file"));
    return net::Response::json(engine(requests.back().at("weight_version"), "ab"));
  });
  Engines engines(role("router"), {role("engine-0")}, {});
  engines.install({file, 4, {{"norm", "ab"}}});
  engines.bring_up(http.url(), [&](int64_t) -> PublishedWeights {
    engines.install({file, 5, {{"norm", "ab"}}});
    throw RolledBack("the trainer has step 4");
  });
  EXPECT_EQ(requests.back().at("weight_version"), "5");
  EXPECT_EQ(order.back(), "add " + http.url());
}

// An engine on the trainer's host takes its weights out of the trainer's GPU memory: it must be told where they lie.
TEST_F(EnginesTest, TheHandleOfGpuMemoryTravelsWithTheFile) {
  answer_with([](int) { return net::Response::json(engine("4", "ab")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  PublishedWeights weights{file, 4, {{"norm", "ab"}}, {}};
  engines.install(weights);
  EXPECT_FALSE(requests.at(0).contains("device"));
  weights.device = DeviceWeights{"boot", "GPU-1", "00ff", 256, 64, "layout"};
  engines.install(weights);
  EXPECT_EQ(requests.at(1).at("path"), file.string());
  EXPECT_EQ(requests.at(1).at("device"), to_json(*weights.device));
}

// One of two engines takes the weights and never answers: the other one is used, and the step goes on.
TEST_F(EnginesTest, AnEngineThatHangsDelaysNobodyAndCatchesUpWithTheNewest) {
  net::HttpServer hung({.worker_threads = 1});
  std::promise<void> hanging, release;
  std::vector<std::string> versions;
  const auto released = release.get_future().share();
  hung.route("GET", "/health",
             [](const net::Request&) { return net::health_reply(net::Colour::kGreen, "engine", ""); });
  hung.route("POST", "/update_weights_from_tensor", [&](const net::Request& request) {
    versions.push_back(request.json().at("weight_version"));
    if (versions.size() == 1) {
      hanging.set_value();
      released.wait();
    }
    return net::Response::json(engine(versions.back(), "ab"));
  });
  hung.start();
  answer_with([this](int) { return net::Response::json(engine(requests.back().at("weight_version"), "ab")); });
  {
    Engines engines(role("router"), {role("engine-0"), Role(supervisor, "engine-0", hung.url())}, {},
                    /*late_after_s=*/0.05);
    EXPECT_EQ(engines.install({file, 4, {{"norm", "ab"}}}).size(), 1u);
    hanging.get_future().wait();
    EXPECT_EQ(engines.install({file, 5, {{"norm", "ab"}}}).size(), 1u);
    EXPECT_EQ(engines.install({file, 6, {{"norm", "ab"}}}).size(), 1u);
    release.set_value();
    EXPECT_EQ(engines.install({file, 7, {{"norm", "ab"}}}).at(0).version, 7);
    released.wait();
  }
  hung.stop();
  EXPECT_THAT(order,
              ElementsAre("update", "barrier 4", "update", "barrier 5", "update", "barrier 6", "update", "barrier 7"));
  EXPECT_EQ(versions.front(), "4");  // what came while it hung was not sent: the newest at most
  EXPECT_LE(versions.size(), 3u);
  EXPECT_THAT(versions, Not(Contains("5")));
}

// It would be waited for all that time, were it there and silent.
TEST_F(EnginesTest, AnEngineThatIsDownIsNotWaitedForOnceAnotherHasTheWeights) {
  answer_with([](int) { return net::Response::json(engine("4", "ab")); });
  const std::string nobody = fmt::format("http://127.0.0.1:{}", free_port());
  Engines engines(role("router"), {role("engine-0"), Role(supervisor, "engine-0", nobody)}, {},
                  /*late_after_s=*/3600);
  EXPECT_EQ(engines.install({file, 4, {{"norm", "ab"}}}).size(), 1u);
  EXPECT_FALSE(engines.wants(4)) << "it is only late";
}

TEST_F(EnginesTest, ALateEngineIsNotGivenWhatWasReplaced) {
  net::HttpServer late({.worker_threads = 1});
  std::atomic<bool> back{false};
  std::promise<void> taken;
  std::vector<std::string> versions;
  late.route("POST", "/update_weights_from_tensor", [&](const net::Request& request) {
    if (!back) return net::Response::error(Error(ErrorKind::kUnavailable, "not yet"));
    versions.push_back(request.json().at("weight_version"));
    if (versions.back() == "5") taken.set_value();
    return net::Response::json(engine(versions.back(), "ab"));
  });
  late.start();
  answer_with([this](int) { return net::Response::json(engine(requests.back().at("weight_version"), "ab")); });
  Engines engines(role("router"), {role("engine-0"), Role(supervisor, "engine-0", late.url())}, {},
                  /*late_after_s=*/0.05);
  EXPECT_EQ(engines.install({file, 4, {{"norm", "ab"}}}).size(), 1u);
  EXPECT_EQ(engines.install({file, 5, {{"norm", "ab"}}}).size(), 1u);
  back = true;
  ASSERT_EQ(taken.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_THAT(versions, ElementsAre("5"));
}

// Whoever waited for it has gone on: the weights are wanted again, and its error is that of who gives them.
TEST_F(EnginesTest, ALateEngineThatFailsIsGivenTheWeightsAgain) {
  net::HttpServer late({.worker_threads = 1});
  std::promise<void> release;
  const auto released = release.get_future().share();
  late.route("POST", "/update_weights_from_tensor", [&](const net::Request&) {
    released.wait();
    return net::Response::error(Error(ErrorKind::kCorrupt, "checksum of norm"));
  });
  late.start();
  answer_with([](int) { return net::Response::json(engine("4", "ab")); });
  Engines engines(role("router"), {role("engine-0"), Role(supervisor, "engine-0", late.url())}, {},
                  /*late_after_s=*/0.05);
  EXPECT_EQ(engines.install({file, 4, {{"norm", "ab"}}}).size(), 1u);
  EXPECT_FALSE(engines.wants(4)) << "it is only late";
  release.set_value();
  const Deadline deadline = Deadline::after(60);
  std::string error = "none";
  while (error == "none" && !deadline.expired()) {  // it may be late again, and fail later again
    if (engines.wants(4)) error = error_of_install(engines);
    else std::this_thread::yield();
  }
  EXPECT_THAT(error, HasSubstr("422 checksum of norm"));
}

// A trainer that goes back before its weights are published again comes to them once more.
TEST_F(EnginesTest, WeightsThatCouldNotBeInstalledAreWantedStill) {
  answer_with([](int) { return net::Response::error(Error(ErrorKind::kCorrupt, "checksum of norm")); });
  Engines engines(role("router"), {role("engine-0")}, {});
  EXPECT_THAT(error_of_install(engines), HasSubstr("checksum of norm"));
  EXPECT_TRUE(engines.wants(4));
}

TEST_F(EnginesTest, AFreshRouterKnowsTheBarrierBeforeAnyEngine) {
  http.start();
  Engines engines(role("router"), {role("engine-0")}, {"http://e:9"});
  engines.bring_up_router(/*restarted=*/false);  // closed: nothing is sampled yet; ours add themselves
  engines.require(7);
  engines.bring_up_router(/*restarted=*/true);
  EXPECT_THAT(order, ElementsAre("barrier 9223372036854775807", "add http://e:9", "barrier 7", "barrier 7",
                                 "add http://e:9", "add " + http.url()));
}

TEST(DeliveryTest, WhateverIsThrownIsItsOutcome) {
  std::promise<void> ended;
  const auto send = [](const PublishedWeights&, const std::function<bool()>&) -> InstalledWeights {
    throw std::runtime_error("no reply of ours");
  };
  Delivery delivery("engine-0", send, [&](const Result<InstalledWeights>& outcome) {
    EXPECT_FALSE(outcome.ok());
    ended.set_value();
  });
  PublishedWeights weights;
  weights.version = 3;
  delivery.give(weights);
  ended.get_future().wait();
  const auto outcome = delivery.outcome(3);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->ok());
}

}  // namespace
}  // namespace tritonforge::orchestrate
