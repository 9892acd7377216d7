#include "net/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;

TEST(Retry, StopsAtSuccessAtPermanentErrorsAndAtTheDeadline) {
  int calls = 0;
  const auto flaky = [&]() -> Result<int> {
    if (++calls < 3) return Error(ErrorKind::kUnavailable, "not yet");
    return 7;
  };
  EXPECT_EQ(retry<int>("the number", Deadline::after(10), flaky).value(), 7);
  EXPECT_EQ(calls, 3);
  calls = 0;
  const auto broken = [&]() -> Result<int> { return ++calls, Error(ErrorKind::kUsage, "wrong"); };
  EXPECT_EQ(retry<int>("it", Deadline::after(10), broken).error().kind(), ErrorKind::kUsage);
  EXPECT_EQ(calls, 1);
  const auto down = []() -> Result<int> { return Error(ErrorKind::kUnavailable, "engine 2 is down"); };
  const auto error = retry<int>("the engine to load", Deadline::after(0.05), down).error();
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("s for the engine to load: engine 2 is down"));
}

TEST(Retry, AStopRequestEndsThePause) {
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_FALSE(pause(3600, stop.get_token()));
}

TEST(Retry, PausesAsLongAsTheErrorAsksAndSaysSo) {
  int calls = 0;
  const auto busy = [&]() -> Result<int> {
    if (++calls < 3) return Error(ErrorKind::kBusy, "queue is full").with_retry_after(calls == 1 ? 0.03 : 0);
    return 7;
  };
  std::vector<double> pauses;
  const Retry how{.backoff = {.first_s = 0.001, .max_s = 0.001}, .on_pause = [&](const Error& error, double pause_s) {
                    EXPECT_STREQ(error.what(), "queue is full");
                    pauses.push_back(pause_s);
                  }};
  EXPECT_EQ(retry<int>("a place", Deadline::after(10), busy, how).value(), 7);
  ASSERT_EQ(pauses.size(), 2u);
  EXPECT_EQ(pauses[0], 0.03);
  EXPECT_LE(pauses[1], 0.001);
}

TEST(Retry, AStopGivesTheLastError) {
  std::stop_source stop;
  const auto down = [&]() -> Result<int> {
    stop.request_stop();
    return Error(ErrorKind::kUnavailable, "engine 2 is down");
  };
  const auto error = retry<int>("it", Deadline::after(3600), down, {.backoff = {3600, 3600}, .stop = stop.get_token()})
                         .error();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_STREQ(error.what(), "engine 2 is down");
}

}  // namespace
}  // namespace tritonforge::net
