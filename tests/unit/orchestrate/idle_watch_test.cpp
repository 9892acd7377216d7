#include "orchestrate/idle_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tritonforge::orchestrate {
namespace {

// A process that says how long it was busy.
class Process {
 public:
  Process() : server_({}) {
    server_.route("GET", "/server_info",
                  [this](const net::Request&) { return net::Response::json({{"step_seconds", busy.load()}}); });
    server_.route("GET", "/health", [this](const net::Request&) {
      return net::health_reply(net::Colour::kGreen, "evaluator", "",
                               {{"busy_seconds", busy.load()}, {"workers", workers}});
    });
    server_.start();
  }
  std::string url() const { return server_.url(); }
  std::atomic<double> busy{100};
  Json workers = 2;  // set while nobody asks

 private:
  net::HttpServer server_;
};

TEST(IdleWatch, SharesAreOfTheTimeSinceTheStepBefore) {
  Process one, two, evaluator;
  const auto begun = Clock::now();
  IdleWatch watch({one.url(), two.url()}, evaluator.url());
  const auto start = Clock::now();
  while (seconds_since(start) < 0.2) std::this_thread::yield();
  const double before = seconds_since(start);
  one.busy = one.busy + 0.1;  // the other one did nothing
  evaluator.busy = evaluator.busy + 0.2;
  const IdleShares shares = watch.step(/*train_s=*/0.05);
  const double most = seconds_since(begun);  // the step took between these two
  EXPECT_GE(*shares.actor, 1 - 0.05 / before - 1e-9);
  EXPECT_LE(*shares.actor, 1 - 0.05 / most + 1e-9);
  EXPECT_GE(*shares.rollout, 1 - 0.05 / before - 1e-9);  // (0.1 + 0) / 2
  EXPECT_GE(*shares.eval, 1 - 0.1 / before - 1e-9);      // 0.2 of two workers
  EXPECT_LT(*shares.eval, 1);
  one.busy = two.busy = 0.0;  // started again
  EXPECT_EQ(*watch.step(1e9).actor, 0);
}

TEST(IdleWatch, WhoIsNotReachedHasNoShareUntilItIsThereTwice) {
  auto engine = std::make_unique<Process>();
  IdleWatch watch({engine->url()}, "");
  EXPECT_TRUE(watch.step(0).rollout);
  EXPECT_FALSE(watch.step(0).eval);
  engine.reset();
  EXPECT_FALSE(watch.step(0).rollout);
  EXPECT_TRUE(watch.step(0).actor);
  IdleWatch none({}, "");
  EXPECT_FALSE(none.step(0).rollout);
}

TEST(IdleWatch, ANumberOfWorkersThatIsNoneIsOne) {
  Process evaluator;
  evaluator.workers = "two";
  IdleWatch watch({}, evaluator.url());
  EXPECT_TRUE(watch.step(0).eval);
}

}  // namespace
}  // namespace tritonforge::orchestrate
