#include "rollout/generator_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <semaphore>

#include "mock_peers.h"

namespace tritonforge::rollout {
namespace {

using ::testing::ElementsAre;

// A buffer that gives as much as it is asked for.
class Giver {
 public:
  Giver() {
    server_.route("POST", "/v2/work", [this](const net::Request& r) {
      const WorkRequest request = work_request_from_json(r.json());
      Json work = Json::array();
      const std::lock_guard lock(mutex_);
      if (!request.leaving) asked_.push_back(request.count);
      changed_.notify_all();
      for (int64_t i = 0; i < request.count; ++i) {
        WorkItem item{group_spec("g", 1000), given_++, {}};
        item.group.options.max_turns = 1;
        work.push_back(to_json(item));
      }
      return net::Response::json({{"work", std::move(work)}, {"heard_within_s", 60}});
    });
    server_.route("POST", "/v2/samples", [this](const net::Request& r) {
      const std::lock_guard lock(mutex_);
      Trajectory trajectory = trajectory_from_bytes(r.body);
      if (const int status = answer ? answer(trajectory) : 200; status != 200)
        return net::Response::json({{"error", {{"message", "not taken"}, {"type", "usage"}}}}, status);
      taken_.push_back(std::move(trajectory));
      changed_.notify_all();
      return net::Response::json(Json::object());
    });
    server_.start();
  }
  std::string url() const { return server_.url(); }
  std::vector<Trajectory> wait_taken(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return taken_.size() >= count; });
    return taken_;
  }
  std::vector<int64_t> wait_asked(size_t times) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= times; });
    return asked_;
  }
  std::function<int(const Trajectory&)> answer;  // a status; none: everything is taken

 private:
  std::mutex mutex_;  // the next four
  std::condition_variable changed_;
  std::vector<int64_t> asked_;
  int64_t given_ = 0;
  std::vector<Trajectory> taken_;
  net::HttpServer server_{net::ServerOptions{}};
};

// Each asking names all that is held: with thousands of places, one for each trajectory would be more work than they.
TEST(GeneratorProcessTest, AsksOnceForManyPlaces) {
  std::counting_semaphore<> answers(0);
  MockPeers mock;
  mock.engine = [&](const Json& body) {
    answers.acquire();
    return MockPeers::reply(body, "no code, so that nobody is asked for a verdict", "stop");
  };
  Giver buffer;
  GeneratorOptions options{.buffer = buffer.url(), .name = "a", .peers = mock.options(), .concurrency = 128};
  GeneratorProcess process(options, std::make_unique<ByteCodec>());
  buffer.wait_asked(1);
  answers.release();
  buffer.wait_taken(1);
  answers.release();
  EXPECT_THAT(buffer.wait_asked(2), ElementsAre(128, 2));
  answers.release(1000);
}

// A wrong key is nobody's trajectory's fault.
TEST(GeneratorProcessTest, WhatIsFinishedWaitsForAKeyThatIsTaken) {
  MockPeers mock;
  Giver buffer;
  int refusals = 0;
  buffer.answer = [&](const Trajectory&) { return refusals++ < 2 ? 401 : 200; };
  GeneratorOptions options{.buffer = buffer.url(), .name = "a", .peers = mock.options(), .concurrency = 1};
  GeneratorProcess process(options, std::make_unique<ByteCodec>());
  EXPECT_EQ(buffer.wait_taken(1).at(0).id, "g.0");
}

TEST(GeneratorProcessTest, OfOneThatIsNotTakenTheBufferIsToldWhy) {
  MockPeers mock;
  Giver buffer;
  buffer.answer = [](const Trajectory& trajectory) {
    return trajectory.turns.at(0).status == TurnStatus::kFailed ? 200 : 400;
  };
  GeneratorOptions options{.buffer = buffer.url(), .name = "a", .peers = mock.options(), .concurrency = 1};
  GeneratorProcess process(options, std::make_unique<ByteCodec>());
  const Trajectory taken = buffer.wait_taken(1).at(0);
  EXPECT_EQ(taken.id, "g.0");
  EXPECT_THAT(taken.turns.at(0).verdict.diagnostics, ::testing::HasSubstr("/v2/samples answered 400: not taken"));
}

TEST(GeneratorProcessTest, WithoutATokenizerItTakesNoWorkOfTokensAndSaysSo) {
  Giver buffer;
  MockPeers mock;
  GeneratorOptions options{.buffer = buffer.url(), .name = "a", .peers = mock.options(), .concurrency = 4};
  GeneratorProcess process(options, no_chat_codec());
  EXPECT_THAT(buffer.wait_asked(2), ::testing::Each(4));  // it holds none of the first four
  EXPECT_THAT(process.state().buffer_error, ::testing::HasSubstr("--tokenizer"));
  EXPECT_EQ(process.state().delivered, 0);
}

TEST(GeneratorProcessTest, AStopWaitsForNoAnswerOfTheBuffer) {
  std::promise<net::ResponderPtr> asked;
  std::promise<void> left;
  net::HttpServer buffer{net::ServerOptions{}};
  buffer.route_async("POST", "/v2/work", [&](const net::Request& r, net::ResponderPtr reply) {
    if (!work_request_from_json(r.json()).leaving) return asked.set_value(std::move(reply));
    reply->send(net::Response::json({{"work", Json::array()}, {"heard_within_s", 60}}));
    left.set_value();
  });
  buffer.start();
  GeneratorProcess process({.buffer = buffer.url(), .name = "a"}, std::make_unique<ByteCodec>());
  const net::ResponderPtr unanswered = asked.get_future().get();
  EXPECT_TRUE(process.stop(0));
  EXPECT_EQ(process.state().buffer_error, "");  // or it was waited for until that was an error
  EXPECT_EQ(left.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

}  // namespace
}  // namespace tritonforge::rollout
