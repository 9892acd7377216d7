#include "router/breaker.h"

#include <gtest/gtest.h>

#include "router/worker.h"

namespace tritonforge::router {
namespace {

using State = Breaker::State;

Clock::time_point at(double seconds) {
  return Clock::time_point{} +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1000 + seconds));
}

TEST(Breaker, OpensAfterFailuresInARowAndLetsOneProbeThrough) {
  Breaker breaker({.failures = 3, .open_s = 1});
  breaker.failed(at(0));
  breaker.failed(at(0));
  breaker.succeeded(at(0));  // not in a row
  breaker.failed(at(0));
  breaker.failed(at(0));
  EXPECT_EQ(breaker.state(at(0)), State::kClosed);
  breaker.failed(at(0));
  EXPECT_EQ(breaker.state(at(0.9)), State::kOpen);
  EXPECT_FALSE(breaker.take_probe(at(0.9)));
  breaker.succeeded(at(0.95));  // the answer to what was sent before
  EXPECT_EQ(breaker.state(at(1)), State::kHalfOpen);
  EXPECT_TRUE(breaker.take_probe(at(1)));
  EXPECT_FALSE(breaker.take_probe(at(1)));  // one at a time
  breaker.end_probe();                      // its client left
  EXPECT_TRUE(breaker.take_probe(at(1)));
  breaker.succeeded(at(1.1));
  EXPECT_EQ(breaker.state(at(1.1)), State::kClosed);
}

TEST(Breaker, AFlappingWorkerIsAskedLessAndLess) {
  Breaker breaker({.failures = 1, .open_s = 1, .max_open_s = 6});
  double now = 0;
  breaker.failed(at(now));
  EXPECT_EQ(breaker.pause_s(), 1);
  for (const double pause : {2, 4, 6, 6}) {
    now += breaker.pause_s();
    ASSERT_TRUE(breaker.take_probe(at(now)));
    breaker.failed(at(now));
    EXPECT_EQ(breaker.pause_s(), pause);
  }
  // A good probe and a failure soon after: it flaps, the pause goes on growing. Only what held counts as healed.
  now += breaker.pause_s();
  ASSERT_TRUE(breaker.take_probe(at(now)));
  breaker.succeeded(at(now));
  breaker.failed(at(now + 5));
  EXPECT_EQ(breaker.pause_s(), 6);
  now += 11;
  ASSERT_TRUE(breaker.take_probe(at(now)));
  breaker.succeeded(at(now));
  breaker.failed(at(now + 7));
  EXPECT_EQ(breaker.pause_s(), 1);
}

TEST(Breaker, AHealthCheckClosesNoBreakerThatRequestsOpened) {
  Worker worker("http://a", {.failures = 2, .open_s = 1});
  worker.healthy();
  worker.failed("cut", Clock::now());
  worker.failed("cut", Clock::now());
  EXPECT_EQ(worker.state(), WorkerState::kRed);
  worker.healthy();
  EXPECT_EQ(worker.state(), WorkerState::kRed);
  EXPECT_FALSE(worker.take_probe());
  const auto later = Clock::now() + std::chrono::seconds(2);
  worker.unhealthy("503");
  EXPECT_FALSE(worker.take_probe(later));  // it says itself that it is not well
  worker.healthy();
  EXPECT_TRUE(worker.take_probe(later));
  worker.answered(later);
  EXPECT_EQ(worker.state(), WorkerState::kGreen);
}

// What was sent while it was well is answered late.
TEST(Breaker, ALateAnswerBringsNoSickWorkerBack) {
  Worker worker("http://a", {.failures = 2, .open_s = 1});
  worker.unhealthy("503");
  worker.unhealthy("503");
  worker.answered();
  EXPECT_EQ(worker.state(), WorkerState::kRed);
  worker.healthy();
  EXPECT_EQ(worker.state(), WorkerState::kGreen);
}

TEST(Breaker, ADrainingWorkerIsNotProbed) {
  Worker worker("http://a", {.failures = 1, .open_s = 1});
  worker.failed("cut");
  worker.drain();
  worker.healthy();
  EXPECT_FALSE(worker.take_probe(Clock::now() + std::chrono::seconds(2)));
}

TEST(Breaker, WhoIsRegisteredAgainIsFresh) {
  Worker worker("http://a", {.failures = 1, .open_s = 60});
  worker.failed("killed");
  worker.drain();
  worker.put_in_service();
  EXPECT_EQ(worker.state(), WorkerState::kYellow);
  EXPECT_EQ(worker.status().breaker, State::kClosed);
  EXPECT_FALSE(worker.draining());
}

}  // namespace
}  // namespace tritonforge::router
