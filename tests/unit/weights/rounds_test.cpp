// Sources, desk and receivers in one process, with members that die where they like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/error.h"
#include "unit/weights/publication.h"
#include "weights/relay.h"

namespace tritonforge::weights {
namespace {

using testing::HasSubstr;

model::ModelConfig larger_config() {
  model::ModelConfig config = engine::tiny_config();
  config.hidden_size = 256;
  config.intermediate_size = 1024;
  config.num_layers = 6;
  return config;  // 24 MiB: several pieces
}

TensorChecksums received(const model::ModelConfig& config, const PublishedWeights& published, const std::string& id,
                         Deadline deadline = Deadline::after(60)) {
  model::Model model(config, at::kFloat, at::kCPU);
  model.init_random(1);
  const StagedWeights staged = receive_weights(model, published, "run", id, deadline, kStall);
  install(staged, model.dtype());
  return model::weight_checksums(model);
}

std::future<TensorChecksums> receiving(const model::ModelConfig& config, const PublishedWeights& published,
                                       const std::string& id) {
  return std::async(std::launch::async, [=] { return received(config, published, id); });
}

std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

TEST(Rounds, EveryLayoutReachesSeveralEnginesAtOnceAndLateOnes) {
  for (const SourceLayout layout :
       {SourceLayout{}, SourceLayout{2, 1, 1}, SourceLayout{1, 2, 1}, SourceLayout{2, 2, 1}}) {
    SCOPED_TRACE(fmt::format("tp {} pp {}", layout.tp, layout.pp));
    Publication trainer(layout);
    for (const int64_t version : {3, 4}) {
      const PublishedWeights published = trainer.publish(version, 10 + static_cast<uint64_t>(version));
      std::vector<std::future<TensorChecksums>> engines;
      for (const char* id : {"a", "b", "c"}) engines.push_back(receiving(trainer.config(), published, id));
      for (auto& engine : engines) EXPECT_EQ(engine.get(), published.checksums);
      EXPECT_EQ(received(trainer.config(), published, "late"), published.checksums);
    }
  }
}

// Comes to the desk as a receiver does, and is of a round; what it does there is the test's affair.
Round take_place(const Publication& trainer, const std::string& id, int64_t version, int64_t sources) {
  const Caller desk(trainer.place());
  while (true) {
    const auto round = desk.ask(
        {.id = id, .version = version, .have = std::vector<int64_t>(static_cast<size_t>(sources))});
    if (round) return *round;
  }
}

TEST(Rounds, AReceiverThatIsGoneHalfWayDelaysTheOthersForItsNextRoundAlone) {
  Publication trainer({}, larger_config());
  const PublishedWeights published = trainer.publish(1, 5);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<std::future<TensorChecksums>> engines;
    for (const char* id : {"a", "b"}) engines.push_back(receiving(trainer.config(), published, id));
    const Round round = take_place(trainer, "dies", 1, 1);
    {
      parallel::Meeting meeting(url_of(trainer.place()), "run");
      const auto relay = make_gloo_relay({.meeting = meeting,
                                          .name = round.name + "-0",
                                          .place = round.place,
                                          .size = round.size,
                                          .host = "127.0.0.1",
                                          .stall_s = kStall});
      struct Dies {};
      int pieces = 0;
      const auto arrived = [&](int64_t) {
        if (++pieces == 3) throw Dies();
      };
      const auto plan = transfer_plan(trainer.config(), {});
      EXPECT_THROW(relay->pass_all(at::empty({stream_bytes(plan[0], at::kFloat)}, at::kByte), arrived), Dies);
    }
    for (auto& engine : engines) EXPECT_EQ(engine.get(), published.checksums);
  }
}

TEST(Rounds, AReceiverThatNeverMovesIsWaitedForNoLongerThanAStall) {
  Publication trainer({}, larger_config());
  const PublishedWeights published = trainer.publish(1, 5);
  std::vector<std::future<TensorChecksums>> engines;
  for (const char* id : {"a", "b"}) engines.push_back(receiving(trainer.config(), published, id));
  take_place(trainer, "hangs", 1, 1);  // and its neighbours never hear of it
  for (auto& engine : engines) EXPECT_EQ(engine.get(), published.checksums);
}

TEST(Rounds, ARoundMayTakeLongerThanAStallAsLongAsSomethingMoves) {
  constexpr double kLong = 12;  // a machine that has much else to do stands still for seconds
  Publication trainer;          // its desk
  const at::Tensor sent = at::randint(256, {96 << 20}, at::kByte), came = at::zeros({96 << 20}, at::kByte);
  parallel::Meeting meeting(url_of(trainer.place()), "run");
  const auto place = [&](int64_t place) {
    return RelayPlace{
        .meeting = meeting, .name = "long", .place = place, .size = 2, .host = "127.0.0.1", .stall_s = kLong};
  };
  auto source = std::async(std::launch::async, [&] { make_gloo_relay(place(0))->pass_all(sent, [](int64_t) {}); });
  // A receiver that takes half a second for a piece, where it has to for all of it to last longer than a stall.
  const auto begun = Clock::now();
  make_gloo_relay(place(1))->pass_all(came, [&](int64_t there) {
    const double share = static_cast<double>(there) / static_cast<double>(came.numel());
    std::this_thread::sleep_until(begun + std::chrono::duration<double>(1.1 * kLong * share));
  });
  EXPECT_GT(seconds_since(begun), kLong);
  source.get();
  EXPECT_TRUE(at::equal(came, sent));
}

TEST(Rounds, WhatWasThereIsNotSentAgain) {
  const model::ModelConfig config = larger_config();
  Publication trainer({}, config);
  const PublishedWeights published = trainer.publish(1, 5);
  const auto pieces = transfer_plan(config, {}).at(0);
  const int64_t bytes = stream_bytes(pieces, at::kFloat);
  const Caller desk(trainer.place());
  std::optional<Round> round;
  while (!round) round = desk.ask({.id = "half", .version = 1, .have = {bytes - 100}});
  EXPECT_EQ(round->from, std::vector<int64_t>{bytes - 100});
  parallel::Meeting meeting(url_of(trainer.place()), "run");
  const auto relay = make_gloo_relay(
      {.meeting = meeting, .name = round->name + "-0", .place = 1, .size = 2, .host = "127.0.0.1", .stall_s = kStall});
  const at::Tensor rest = at::empty({100}, at::kByte);
  int64_t came = 0;
  relay->pass_all(rest, [&](int64_t there) { came = there; });
  EXPECT_EQ(came, 100);
}

// They come one after another; how many each finds in its round, the source among them.
std::vector<int64_t> sizes_of_round(const DeskPlace& place, int64_t version, const std::vector<std::string>& ids) {
  const auto coming = [&](const Member& member) {
    return std::async(std::launch::async, [place, member] {
      const Caller desk(place);
      std::optional<Round> round;
      while (!round) round = desk.ask(member);
      return round->size;
    });
  };
  std::vector<std::future<int64_t>> members;
  for (const std::string& id : ids) members.push_back(coming({.id = id, .version = version, .have = {0}}));
  members.push_back(coming({.source = 0, .version = version}));
  std::vector<int64_t> sizes;
  for (auto& member : members) sizes.push_back(member.get());
  return sizes;
}

TEST(Rounds, ALateEngineDoesNotPartTheOthersAtTheNextVersion) {
  Desk desk({.key = "run", .gather_s = 2});
  const DeskPlace place{"127.0.0.1", desk.port(), "run"};
  desk.offer(1);
  EXPECT_THAT(sizes_of_round(place, 1, {"a", "b"}), testing::Each(3));
  EXPECT_THAT(sizes_of_round(place, 1, {"late"}), testing::Each(2));
  desk.offer(2);
  EXPECT_THAT(sizes_of_round(place, 2, {"late", "a", "b"}), testing::Each(4));
  // The version's round failed, and one of them does not come back.
  EXPECT_THAT(sizes_of_round(place, 2, {"late", "b"}), testing::Each(3));
}

TEST(Rounds, WhatIsNotOfferedAnyMoreIsSaidAndALaterOneIsTaken) {
  Publication trainer;
  const PublishedWeights first = trainer.publish(1, 5), second = trainer.publish(2, 6);
  const auto error = error_of([&] { received(trainer.config(), first, "a"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error->what(), HasSubstr("weights 1 are not offered, 2 are"));
  EXPECT_EQ(received(trainer.config(), second, "a"), second.checksums);
}

TEST(Rounds, WhoWaitsForWhatIsReplacedIsToldSo) {
  Publication trainer;
  const PublishedWeights first = trainer.publish(1, 5);
  trainer.close();  // nobody sends
  auto waits = std::async(std::launch::async,
                          [&] { return error_of([&] { received(trainer.config(), first, "a"); }).value(); });
  trainer.offer(2);
  EXPECT_EQ(waits.get().kind(), ErrorKind::kNotFound);
}

TEST(Rounds, OtherWeightsThanThePublishersAreRefused) {
  Publication trainer;
  PublishedWeights published = trainer.publish(1, 5);
  published.checksums.begin()->second = std::string(16, '0');
  const auto error = error_of([&] { received(trainer.config(), published, "a"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error->what(), HasSubstr(published.checksums.begin()->first));
}

TEST(Rounds, AnotherModelIsRefusedBeforeAnythingIsSent) {
  Publication trainer;
  const PublishedWeights published = trainer.publish(1, 5);
  const auto error = error_of([&] { received(larger_config(), published, "a"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error->what(), HasSubstr("another model"));
}

TEST(Rounds, WhoHasNotTheKeyIsToldNothing) {
  Publication trainer;
  const PublishedWeights published = trainer.publish(1, 5);
  DeskPlace stranger = trainer.place();
  stranger.key = "guess";
  const auto error = error_of([&] { Caller(stranger).ask({.id = "x", .version = 1, .have = {0}}); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("key"));
}

TEST(Rounds, AMemberThatIsNoneIsRefused) {
  Publication trainer;
  trainer.publish(1, 5);
  const Caller desk(trainer.place());
  const auto refused = [&](const Member& member) { return error_of([&] { desk.ask(member); }).has_value(); };
  EXPECT_TRUE(refused({.source = 1, .version = 1}));                // there is one
  EXPECT_TRUE(refused({.id = "x", .version = 1, .have = {0, 0}}));  // of two sources
}

}  // namespace
}  // namespace tritonforge::weights
