#include "router/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace tritonforge::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What came of the requests, in order; those that started hold their tickets.
struct Outcomes {
  Admission::Start of(const std::string& name) {
    return [this, name](Result<Admission::Ticket> admitted) {
      if (!admitted.ok()) {
        texts.push_back(name + " " + std::string(name_of(admitted.error().kind())));
        last_error = admitted.error();
        return;
      }
      texts.push_back(name);
      tickets[name] = std::move(admitted).value();
    };
  }
  std::vector<std::string> texts;
  std::map<std::string, Admission::Ticket> tickets;
  std::optional<Error> last_error;
};

const Deadline kFar = Deadline::after(3600);
std::string kind(ErrorKind kind) { return " " + std::string(name_of(kind)); }

TEST(TokenBucket, RefillsAtItsRateUpToItsSize) {
  TokenBucket bucket(/*rate=*/2, /*burst=*/3);
  const auto start = Clock::now();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.take(start), 0);
  EXPECT_NEAR(bucket.take(start), 0.5, 1e-9);
  EXPECT_NEAR(bucket.take(start + std::chrono::milliseconds(250)), 0.25, 1e-9);
  EXPECT_EQ(bucket.take(start + std::chrono::milliseconds(500)), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.take(start + std::chrono::seconds(100)), 0);
  EXPECT_GT(bucket.take(start + std::chrono::seconds(100)), 0);
}

TEST(Admission, AnEmptyBucketRefusesItsOwnKindAndSaysWhenToComeAgain) {
  Admission admission({.evaluation_rate = 0.001, .burst = 1});
  Outcomes out;
  admission.ask(Priority::kEvaluation, kFar, out.of("e1"));
  admission.ask(Priority::kEvaluation, kFar, out.of("e2"));
  admission.ask(Priority::kTraining, kFar, out.of("t"));
  EXPECT_THAT(out.texts, ElementsAre("e1", "e2" + kind(ErrorKind::kBusy), "t"));
  EXPECT_GT(out.last_error->retry_after_s(), 900);
}

TEST(Admission, WhatAFullQueueRefusesCostsNoToken) {
  Outcomes out;
  Admission admission(
      {.max_running = 1, .max_waiting = 1, .training_rate = 0.001, .evaluation_rate = 0.001, .burst = 3});
  const std::string busy = kind(ErrorKind::kBusy);
  admission.ask(Priority::kTraining, kFar, out.of("running"));
  admission.ask(Priority::kEvaluation, kFar, out.of("waiting"));
  for (const auto* name : {"e1", "e2", "e3"}) admission.ask(Priority::kEvaluation, kFar, out.of(name));
  admission.ask(Priority::kTraining, kFar, out.of("t1"));  // in the place of the one that waits
  EXPECT_THAT(out.texts, ElementsAre("running", "e1" + busy, "e2" + busy, "e3" + busy, "waiting" + busy));
  for (const auto* name : {"t2", "t3", "t4"}) {
    admission.ask(Priority::kTraining, kFar, out.of(name));
    EXPECT_THAT(out.last_error->what(), HasSubstr("are under way")) << name;
  }
  for (const auto* name : {"running", "t1"}) out.tickets.at(name).reset();
  out.texts.clear();
  const auto ask = [&](Priority priority, const char* name) {
    admission.ask(priority, kFar, out.of(name));
    out.tickets[name].reset();  // there is room for all: the buckets alone refuse
  };
  for (const auto* name : {"e4", "e5", "e6", "e7"}) ask(Priority::kEvaluation, name);
  for (const auto* name : {"t5", "t6"}) ask(Priority::kTraining, name);
  EXPECT_THAT(out.texts, ElementsAre("e4", "e5", "e6", "e7" + busy, "t5", "t6" + busy));
}

TEST(Admission, TrainingGoesBeforeEvaluationEachInTurn) {
  Outcomes out;
  Admission admission({.max_running = 1});
  for (const auto* name : {"first", "e1", "e2"}) admission.ask(Priority::kEvaluation, kFar, out.of(name));
  for (const auto* name : {"t1", "t2"}) admission.ask(Priority::kTraining, kFar, out.of(name));
  EXPECT_EQ(admission.waiting(), 4u);
  for (const auto* name : {"first", "t1", "t2", "e1", "e2"}) {
    EXPECT_EQ(admission.running(), 1);
    EXPECT_EQ(out.texts.back(), name);
    out.tickets.at(name).reset();
  }
  EXPECT_EQ(admission.running(), 0);
}

TEST(Admission, AFullQueueRefusesTheYoungestEvaluationForTraining) {
  Outcomes out;
  Admission admission({.max_running = 1, .max_waiting = 2});
  admission.ask(Priority::kTraining, kFar, out.of("running"));
  for (const auto* name : {"e1", "e2", "e3"}) admission.ask(Priority::kEvaluation, kFar, out.of(name));
  for (const auto* name : {"t1", "t2", "t3"}) admission.ask(Priority::kTraining, kFar, out.of(name));
  const std::string busy = kind(ErrorKind::kBusy);
  EXPECT_THAT(out.texts, ElementsAre("running", "e3" + busy, "e2" + busy, "e1" + busy, "t3" + busy));
  EXPECT_THAT(out.last_error->what(), HasSubstr("1 requests are under way and 2 wait"));
  out.tickets.clear();
}

TEST(Admission, WhoWaitsTooLongIsToldByTheDeadline) {
  Admission admission({.max_running = 1});
  Outcomes out;
  admission.ask(Priority::kTraining, kFar, out.of("running"));
  for (int i = 0; i < 20; ++i) {  // the first one may come before somebody looks at deadlines, the others wake them
    std::promise<ErrorKind> told;
    auto outcome = told.get_future();
    admission.ask(Priority::kTraining, Deadline::after(0.01),
                  [&](Result<Admission::Ticket> admitted) { told.set_value(admitted.error().kind()); });
    ASSERT_EQ(outcome.wait_for(std::chrono::seconds(60)), std::future_status::ready);
    EXPECT_EQ(outcome.get(), ErrorKind::kTimeout);
  }
  EXPECT_EQ(admission.waiting(), 0u);
}

// While the first of those who wait is begun, another place becomes free and somebody new comes.
TEST(Admission, NobodyOvertakesThoseWhoWait) {
  Outcomes out;
  Admission admission({.max_running = 2});
  for (const auto* name : {"a", "b"}) admission.ask(Priority::kTraining, kFar, out.of(name));
  admission.ask(Priority::kTraining, kFar, [&](Result<Admission::Ticket> admitted) {
    out.of("first")(std::move(admitted));
    out.tickets.at("b").reset();
    admission.ask(Priority::kTraining, kFar, out.of("late"));
  });
  admission.ask(Priority::kTraining, kFar, out.of("second"));
  out.tickets.at("a").reset();
  EXPECT_THAT(out.texts, ElementsAre("a", "b", "first", "second"));
  out.tickets.at("first").reset();
  EXPECT_EQ(out.texts.back(), "late");
  out.tickets.clear();
}

TEST(Admission, WhoLeftTakesNoPlaceAndWhoeverWaitsAtTheEndIsTold) {
  Outcomes out;
  Admission admission({.max_running = 1});
  admission.ask(Priority::kTraining, kFar, out.of("running"));
  const uint64_t gone = admission.ask(Priority::kTraining, kFar, out.of("gone"));
  admission.ask(Priority::kTraining, kFar, out.of("waits"));
  admission.cancel(gone);
  admission.close();
  admission.ask(Priority::kTraining, kFar, out.of("late"));
  const std::string down = kind(ErrorKind::kUnavailable);
  EXPECT_THAT(out.texts, ElementsAre("running", "waits" + down, "late" + down));
  out.tickets.clear();
}

TEST(Admission, RequestsThatEndAtOnceDoNotDeepenTheStack) {
  Admission admission({.max_running = 1, .max_waiting = 200000});
  Outcomes out;
  int ended = 0;
  admission.ask(Priority::kTraining, kFar, out.of("running"));
  for (int i = 0; i < 200000; ++i)
    admission.ask(Priority::kTraining, kFar, [&](Result<Admission::Ticket> admitted) { ended += admitted.ok(); });
  out.tickets.clear();
  EXPECT_EQ(ended, 200000);
}

}  // namespace
}  // namespace tritonforge::router
