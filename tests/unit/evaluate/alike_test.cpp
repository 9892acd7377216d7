#include "evaluate/alike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace tritonforge::evaluate {
namespace {

Verdict correct() {
  Verdict verdict;
  verdict.correct = true;
  return verdict;
}

TEST(Alike, WhateverAVerdictFollowsFromIsPartOfTheKey) {
  std::set<std::string> keys{key_of({}, EvaluationMode::kPlan), key_of({}, EvaluationMode::kLive)};
  const auto differs = [&](auto change) {
    EvaluationRequest request;
    change(request);
    return keys.insert(key_of(request, EvaluationMode::kPlan)).second;
  };
  EXPECT_FALSE(differs([](auto& request) { request.problem_id = "a name"; }));
  EXPECT_TRUE(differs([](auto& request) { request.problem_source = "a problem"; }));
  EXPECT_TRUE(differs([](auto& request) { request.candidate = "a candidate"; }));
  EXPECT_TRUE(differs([](auto& request) { request.seed = 7; }));
  EXPECT_TRUE(differs([](auto& request) { request.fresh_seeds = false; }));
  EXPECT_TRUE(differs([](auto& request) { request.backend = Backend::kHip; }));
  EXPECT_TRUE(differs([](auto& request) { request.targets = {Target::kGfx942}; }));
  EXPECT_TRUE(differs([](auto& request) { request.num_correct_trials = 4; }));
  EXPECT_TRUE(differs([](auto& request) { request.num_perf_trials = 50; }));
  EXPECT_TRUE(differs([](auto& request) { request.measure_performance = false; }));
  EXPECT_TRUE(differs([](auto& request) { request.timeout_s = 600; }));  // what had less may have been cut short
}

constexpr int kOthers = 4;

void wait_for_all(Alike& all) {
  const Deadline deadline = Deadline::after(60);
  while (all.waiting() < kOthers && !deadline.expired()) std::this_thread::yield();
  ASSERT_EQ(all.waiting(), kOthers);
}

TEST(Alike, OneOfManyIsMadeAndAllHaveItsVerdict) {
  Alike all;
  std::atomic<int> known{0};
  std::vector<std::thread> threads;
  {
    Alike::Place first(all, "a", Client());
    EXPECT_FALSE(first.known());
    for (int k = 0; k < kOthers; ++k) {
      threads.emplace_back([&] {
        Alike::Place place(all, "a", Client());
        known += place.known() && place.known()->correct;
      });
    }
    Alike::Place other(all, "b", Client());  // waits for nobody
    EXPECT_FALSE(other.known());
    wait_for_all(all);
    first.tell(correct());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(known, kOthers);
}

TEST(Alike, WhereTheFirstHasNoneAnotherIsTheFirst) {
  Alike all;
  auto first = std::make_optional<Alike::Place>(all, "a", Client());
  std::atomic<int> made{0}, known{0};
  std::vector<std::thread> threads;
  for (int k = 0; k < kOthers; ++k) {
    threads.emplace_back([&] {
      Alike::Place place(all, "a", Client());
      if (place.known()) return void(++known);
      ++made;
      place.tell(correct());
    });
  }
  wait_for_all(all);
  first.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(made, 1);  // who wakes up after that one's end is a first one again
  EXPECT_EQ(made + known, kOthers);
}

TEST(Alike, WhoWaitsHearsItsDeadlineAndItsClientsEnd) {
  Alike all;
  Alike::Place first(all, "a", Client());
  const auto error_of = [&](const Client& client) -> std::string {
    try {
      Alike::Place(all, "a", client);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of(Client(Deadline::after(0))), ::testing::HasSubstr("an equal evaluation has not ended in time"));
  std::stop_source gone;
  gone.request_stop();
  EXPECT_THAT(error_of(Client(Deadline::after(60), gone.get_token())), ::testing::HasSubstr("hung up"));
}

}  // namespace
}  // namespace tritonforge::evaluate
