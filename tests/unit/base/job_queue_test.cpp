#include "base/job_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace tritonforge {
namespace {

// A job that says that it runs and then waits until it is let go.
struct Gate {
  std::promise<void> entered, open;
  std::function<void()> job() {
    return [this] {
      entered.set_value();
      open.get_future().wait();
    };
  }
};

TEST(JobQueueTest, RunsInOrderAndRefusesWhatItCannotTake) {
  Gate gate;
  std::vector<int> order;
  int refused = 0;
  JobQueue queue(1, 3);
  ASSERT_TRUE(queue.submit(gate.job()));
  gate.entered.get_future().wait();
  EXPECT_TRUE(queue.submit({[&] { order.push_back(1); }, [&] { ++refused; }}));
  EXPECT_TRUE(queue.submit({[&] { order.push_back(2); }, nullptr}));
  EXPECT_TRUE(queue.submit({[&] { order.push_back(3); }, [&] { ++refused; }}));
  EXPECT_FALSE(queue.submit({[&] { order.push_back(4); }, [&] { ++refused; }}));
  EXPECT_EQ(queue.queued(), 3u);
  // Stopped while the first runs: those that name a refusal are refused, the other still runs.
  std::thread stopper([&] { queue.stop(); });
  while (queue.queued() > 1) std::this_thread::yield();
  gate.open.set_value();
  stopper.join();
  EXPECT_EQ(order, std::vector<int>{2});
  EXPECT_EQ(refused, 2);
  EXPECT_FALSE(queue.submit([] {}));
  queue.stop();
}

TEST(JobQueueTest, OneThreadKeepsTheOrderOfSubmission) {
  std::vector<int> order;
  {
    JobQueue queue(1);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.submit([&order, i] { order.push_back(i); }));
  }
  std::vector<int> expected(100);
  for (int i = 0; i < 100; ++i) expected[i] = i;
  EXPECT_EQ(order, expected);
}

TEST(JobQueueTest, SeveralThreadsRunSeveralJobsAtOnce) {
  Gate first, second;
  JobQueue queue(2);
  ASSERT_TRUE(queue.submit(first.job()));
  ASSERT_TRUE(queue.submit(second.job()));
  first.entered.get_future().wait();
  second.entered.get_future().wait();
  first.open.set_value();
  second.open.set_value();
}

TEST(JobQueueTest, DrainWaitsForWhatWasSubmittedBeforeAndForItsEnd) {
  Gate slow, later;
  JobQueue queue(2);
  const auto held = std::make_shared<int>(0);
  std::atomic<bool> ran = false;
  ASSERT_TRUE(queue.submit(slow.job()));
  slow.entered.get_future().wait();
  ASSERT_TRUE(queue.submit([held, &ran] { ran = true; }));
  while (!ran) std::this_thread::yield();
  // The later job has ended, the earlier one has not.
  EXPECT_FALSE(queue.drain(Deadline::after(0.02)));
  slow.open.set_value();
  EXPECT_TRUE(queue.drain(Deadline::after(60)));
  EXPECT_EQ(held.use_count(), 1);
  // What comes after the call is not waited for.
  ASSERT_TRUE(queue.drain(Deadline::after(0)));
  ASSERT_TRUE(queue.submit(later.job()));
  later.open.set_value();
}

}  // namespace
}  // namespace tritonforge
