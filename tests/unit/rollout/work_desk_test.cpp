#include "rollout/work_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <future>

#include "mock_peers.h"

namespace tritonforge::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NoTurns : public TurnKeeper {
 public:
  std::vector<KeptTurn> kept_turns(const std::string&, int64_t) override {
    if (reads) reads();
    return {};
  }
  void keep_turn(const std::string&, int64_t, int64_t, const KeptTurn&) override {}
  std::function<void()> reads;  // what reading does
};

// What is sent to whoever asked.
class Answer : public net::Responder {
 public:
  void send(net::Response response) override {
    std::lock_guard lock(mutex_);
    response_ = std::move(response);
    there_.notify_all();
  }
  void begin_stream(int, const std::string&, const net::Headers&) override { ADD_FAILURE(); }
  bool write(std::string) override { return false; }
  void end_stream() override {}
  bool connected() const override { return connected_; }
  void on_disconnect(std::function<void()>) override {}
  void hang_up() { connected_ = false; }
  // The trajectories that were given; "refused" where it was an error.
  std::vector<std::string> wait() {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [&] { return response_.has_value(); });
    if (response_->status != 200) return {"refused"};
    std::vector<std::string> ids;
    const Json body = parse_json(response_->body, "answer");
    for (const Json& item : body.at("work"))
      ids.push_back(trajectory_id(item.at("group").at("group_id"), item.at("sample")));
    return ids;
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<net::Response> response_;
  std::atomic<bool> connected_{true};
};

class WorkDeskTest : public ::testing::Test {
 protected:
  std::shared_ptr<Answer> ask(const std::string& worker, int64_t count, double timeout_s = 0,
                              std::vector<std::string> holding = {}) {
    WorkRequest request;
    request.worker = worker;
    request.count = count;
    request.holding = std::move(holding);
    request.activity.turns = 3;
    auto answer = std::make_shared<Answer>();
    desk->ask(std::move(request), Deadline::after(timeout_s), answer);
    return answer;
  }
  void submit(const std::string& group, const std::vector<int64_t>& samples, bool keep_turns = false) {
    GroupSpec spec = group_spec(group);
    spec.options.keep_turns = keep_turns;
    pool.submit(std::make_shared<const GroupSpec>(std::move(spec)), samples);
  }
  void open(double silence_s) {
    desk = std::make_unique<WorkDesk>(pool, turns, silence_s);
    pool.on_submit([this] { desk->work_came(); });
  }

  NoTurns turns;
  RolloutPool pool{0, [](const GroupPtr&, int64_t, std::stop_token) {}};
  std::unique_ptr<WorkDesk> desk;
};

TEST_F(WorkDeskTest, WhoWaitsIsGivenWhatComesAndNobodyElse) {
  open(60);
  const auto first = ask("a", 2, 20), second = ask("b", 2, 20);
  submit("g", {0, 1, 2});
  EXPECT_THAT(first->wait(), ElementsAre("g.0", "g.1"));
  EXPECT_THAT(second->wait(), ElementsAre("g.2"));
  EXPECT_EQ(desk->totals().claimed, 3u);
  EXPECT_EQ(desk->totals().activity.turns, 6);
  desk->finished("a", "g.0");
  EXPECT_EQ(desk->totals().claimed, 2u);
  EXPECT_THAT(ask("c", 1, 0.01)->wait(), IsEmpty());
}

TEST_F(WorkDeskTest, ABufferThatStartedAgainLeavesWithAProcessWhatItHolds) {
  open(60);
  submit("g", {0, 1, 2, 3});
  ask("a", 0, 0, {"g.1", "g.3", "other.0"})->wait();
  EXPECT_THAT(ask("b", 9)->wait(), ElementsAre("g.0", "g.2"));
  EXPECT_EQ(desk->totals().claimed, 4u);
  ask("a", 0, 0, {"g.3"})->wait();
  EXPECT_THAT(ask("c", 9)->wait(), ElementsAre("g.1"));
}

TEST_F(WorkDeskTest, WhoFallsSilentLosesWhatItHeldToTheNext) {
  open(1);
  submit("g", {0, 1});
  EXPECT_THAT(ask("a", 2)->wait(), ElementsAre("g.0", "g.1"));
  EXPECT_THAT(ask("b", 2, 20)->wait(), ElementsAre("g.0", "g.1"));  // who waits for an answer is not silent
  EXPECT_EQ(desk->totals().workers, 1u);
  EXPECT_EQ(desk->totals().activity.turns, 6);  // what it did stays in the sums
}

TEST_F(WorkDeskTest, WhoLeavesIsMissedByNobody) {
  open(60);
  submit("g", {0});
  EXPECT_THAT(ask("a", 1)->wait(), ElementsAre("g.0"));
  WorkRequest leaving;
  leaving.worker = "a";
  leaving.leaving = true;
  leaving.activity.turns = 5;
  const auto answer = std::make_shared<Answer>();
  desk->ask(leaving, Deadline::after(0), answer);
  EXPECT_THAT(answer->wait(), IsEmpty());
  EXPECT_EQ(desk->totals().workers, 0u);
  EXPECT_EQ(desk->totals().activity.turns, 5);
  EXPECT_THAT(ask("b", 1)->wait(), ElementsAre("g.0"));
}

TEST_F(WorkDeskTest, WhatCannotBeReadIsRefusedAndForWhoeverAsksNext) {
  open(60);
  std::atomic<bool> damaged = true;
  turns.reads = [&] {
    if (damaged) fail(ErrorKind::kUnavailable, "the disk does not answer");
  };
  submit("g", {0, 1}, /*keep_turns=*/true);
  EXPECT_THAT(ask("a", 2, 20)->wait(), ElementsAre("refused"));
  damaged = false;
  EXPECT_THAT(ask("b", 2, 20)->wait(), ElementsAre("g.0", "g.1"));
  EXPECT_EQ(desk->totals().claimed, 2u);
}

TEST_F(WorkDeskTest, ADiskThatIsSlowHoldsUpNobodyWhoAsks) {
  std::promise<void> reads, goes_on;
  turns.reads = [&] {
    reads.set_value();
    goes_on.get_future().wait();
  };
  open(60);
  submit("g", {0}, /*keep_turns=*/true);
  const auto first = ask("a", 1, 20);
  reads.get_future().wait();
  const auto second = std::async(std::launch::async, [&] { return ask("b", 0); });
  const bool asked = second.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  goes_on.set_value();
  EXPECT_TRUE(asked);
  EXPECT_THAT(first->wait(), ElementsAre("g.0"));
}

TEST_F(WorkDeskTest, WhoHungUpIsGivenNothing) {
  open(60);
  const auto gone = ask("a", 2, 20);
  gone->hang_up();
  submit("g", {0});
  EXPECT_THAT(ask("b", 2, 20)->wait(), ElementsAre("g.0"));
}

TEST_F(WorkDeskTest, ThoseThatWaitAtItsEndAreRefused) {
  open(60);
  const auto waiting = ask("a", 1, 20);
  desk.reset();
  pool.on_submit(nullptr);
  EXPECT_THAT(waiting->wait(), ElementsAre("refused"));
}

}  // namespace
}  // namespace tritonforge::rollout
