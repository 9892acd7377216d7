#include "net/loop.h"

#include <gtest/gtest.h>

#include <future>

namespace tritonforge::net {
namespace {

Clock::time_point in_ms(int ms) { return Clock::now() + std::chrono::milliseconds(ms); }

TEST(Alarm, RingsAtTheLastTimeThatWasSet) {
  asio::io_context io(1);
  std::string rung;
  Alarm moved(io.get_executor(), [&] { rung += "moved "; });
  Alarm cleared(io.get_executor(), [&] { rung += "cleared "; });
  Alarm sooner(io.get_executor(), [&] { rung += "sooner "; });
  auto ended = std::make_unique<Alarm>(io.get_executor(), [&] { rung += "ended "; });
  moved.set(in_ms(1));
  moved.set(in_ms(3600 * 1000));
  cleared.set(in_ms(1));
  cleared.clear();
  ended->set(in_ms(1));
  ended.reset();
  sooner.set(in_ms(3600 * 1000));
  sooner.set(in_ms(5));
  while (rung.empty()) io.run_one();
  io.poll();
  EXPECT_EQ(rung, "sooner ");
  // Once it rang it may be set again, by its own ring, too.
  Alarm again(io.get_executor(), [&, left = 2]() mutable {
    rung += "again ";
    if (--left > 0) again.set(in_ms(1));
  });
  again.set(in_ms(1));
  while (rung != "sooner again again ") io.run_one();
}

TEST(Loop, EndsOnceItsTasksHave) {
  struct Slow final : Loop::Task {
    explicit Slow(Loop& loop) : loop(loop) {}
    void cancel() override {
      EXPECT_EQ(Loop::current().get(), &loop);
      asio::post(loop.io, [this] {
        ended = true;
        loop.remove(this);
      });
    }
    Loop& loop;
    bool ended = false;
  };
  const auto loop = std::make_shared<Loop>();
  loop->start();
  EXPECT_EQ(Loop::current(), nullptr);
  int mine = 0;
  Slow one(*loop), other(*loop), late(*loop);
  one.owner = &mine;
  EXPECT_TRUE(loop->add(&one));
  EXPECT_TRUE(loop->add(&other));
  std::promise<bool> only_mine;
  loop->cancel_tasks(&mine);
  asio::post(loop->io, [&] { asio::post(loop->io, [&] { only_mine.set_value(one.ended && !other.ended); }); });
  EXPECT_TRUE(only_mine.get_future().get());
  loop->finish();
  EXPECT_TRUE(other.ended);
  EXPECT_FALSE(loop->add(&late));
  loop->finish();
}

TEST(Signal, WakesWhoWaitsAndNobodyLater) {
  asio::io_context io(1);
  Signal signal;
  int woken = 0;
  asio::co_spawn(
      io,
      [&]() -> awaitable<void> {
        for (; woken < 2; ++woken) co_await signal.wait();
      },
      asio::detached);
  signal.notify();  // nobody waits yet
  io.poll();
  EXPECT_EQ(woken, 0);
  signal.notify();
  EXPECT_EQ(woken, 1);
  signal.notify();
  EXPECT_EQ(woken, 2);
}

}  // namespace
}  // namespace tritonforge::net
