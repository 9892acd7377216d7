#include "parallel/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <fstream>
#include <set>

#include "base/filesystem.h"
#include "unit/parallel/run_ranks.h"

namespace tritonforge::parallel {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

ParallelDims data_parallel(int64_t ranks, double timeout_s = 60) {
  ParallelDims dims;
  dims.dp = ranks;
  dims.timeout_s = timeout_s;
  return dims;
}

TEST(Shares, AreWholeAndEvenApartFromTheLastOne) {
  for (const int64_t count : {0, 1, 127, 128, 1000, 5000}) {
    for (const int64_t ranks : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Share share = share_of(count, ranks, rank);
        EXPECT_EQ(share.begin, next);
        EXPECT_EQ(share.begin % 128, 0);
        if (rank + 1 < ranks) {
          EXPECT_EQ(share.count, share_of(count, ranks, 0).count);
        }
        next += share.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Coordinates, TpVariesFastestAndPpSlowest) {
  ParallelDims dims;
  dims.tp = 2, dims.cp = 3, dims.dp = 5, dims.pp = 7;
  for (int64_t rank = 0; rank < dims.world(); ++rank) {
    const Coordinates at = coordinates_of(dims, rank);
    EXPECT_EQ(at.tp + 2 * (at.cp + 3 * (at.dp + 5 * at.pp)), rank);
  }
}

// Or a loop that was woken in front of a connection's holder keeps the core from it.
TEST(World, ThreadsOfCollectivesDoNotDisplaceWhoComputes) {
  const int own = ::sched_getscheduler(0);
  run_ranks(data_parallel(2), [&](World& world) {
    EXPECT_EQ(::sched_getscheduler(0), own);
    world.host().all_reduce(at::zeros({1}), "begun")->wait();  // a thread has its name once it runs
    if (world.rank() == 0) {
      int64_t named = 0, patient = 0;
      for (const auto& task : fs::directory_iterator("/proc/self/task")) {
        const bool batch = ::sched_getscheduler(std::stoi(task.path().filename().string())) == SCHED_BATCH;
        patient += batch ? 1 : 0;
        std::string name;
        std::ifstream(task.path() / "comm") >> name;
        if (name != "pt_gloo_runloop") continue;
        ++named;
        EXPECT_TRUE(batch);
      }
      EXPECT_GT(named, 0);
      EXPECT_GT(patient, named);  // the loops of the connections, too, which have no name
    }
    world.host().all_reduce(at::zeros({1}), "looked")->wait();  // all threads are there until then
  });
}

TEST(World, CollectivesGiveEveryRankWhatTheyPromise) {
  for (const int64_t ranks : {1, 2, 3}) {
    run_ranks(data_parallel(ranks), [&](World& world) {
      Group& group = ranks == 1 ? world.host() : *world.groups().zero;
      const auto mine = [&](int64_t count) {
        return at::arange(count, at::kFloat) + 1000.0 * static_cast<double>(group.rank());
      };
      const double sum_of_ranks = 1000.0 * static_cast<double>(ranks * (ranks - 1)) / 2;
      for (const int64_t count : {1, 640, 1001}) {
        const at::Tensor total = at::arange(count, at::kFloat) * static_cast<double>(ranks) + sum_of_ranks;
        at::Tensor x = mine(count);
        group.all_reduce(x, "x")->wait();
        EXPECT_TRUE(at::equal(x, total)) << count;

        x = mine(count);
        group.reduce_scatter(x, "x")->wait();
        const Share own = share_of(count, ranks, group.rank());
        EXPECT_TRUE(at::equal(x.narrow(0, own.begin, own.count), total.narrow(0, own.begin, own.count))) << count;

        x = mine(count);
        group.all_gather(x, "x")->wait();
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const Share share = share_of(count, ranks, rank);
          const at::Tensor expected = at::arange(count, at::kFloat) + 1000.0 * static_cast<double>(rank);
          EXPECT_TRUE(at::equal(x.narrow(0, share.begin, share.count), expected.narrow(0, share.begin, share.count)));
        }

        x = mine(count);
        group.broadcast(x, ranks - 1, "x")->wait();
        EXPECT_TRUE(at::equal(x, at::arange(count, at::kFloat) + 1000.0 * static_cast<double>(ranks - 1)));
      }
    });
  }
}

// Two at a time, as a ring of keys and values with their gradients behind them has them.
TEST(World, WhatGoesRoundComesFromTheRankBefore) {
  for (const int64_t ranks : {2, 3, 4}) {
    run_ranks(data_parallel(ranks), [&](World& world) {
      Group& group = *world.groups().zero;
      const auto of_rank = [&](int64_t rank, int64_t count) {
        return at::arange(count, at::kFloat) + 1000.0 * static_cast<double>((rank + ranks) % ranks);
      };
      at::Tensor few = of_rank(group.rank(), 5), many = of_rank(group.rank(), 100000);
      for (int64_t round = 1; round <= 2 * ranks; ++round) {
        const at::Tensor next_few = at::empty_like(few), next_many = at::empty_like(many);
        const PendingPtr first = group.shift(next_few, few, "few"), second = group.shift(next_many, many, "many");
        second->wait();
        first->wait();
        few = next_few, many = next_many;
        EXPECT_TRUE(at::equal(few, of_rank(group.rank() - round % ranks, 5)));
        EXPECT_TRUE(at::equal(many, of_rank(group.rank() - round % ranks, 100000)));
      }
    });
  }
}

// ep 2 of dp 2 x cp 2 x tp 2: experts are shared out between ranks of cp, and ranks of dp have the same.
TEST(World, RanksThatShareOutExpertsAndThoseThatHaveTheSameOnesHaveGroups) {
  ParallelDims dims = data_parallel(2);
  dims.tp = 2, dims.cp = 2, dims.ep = 2;
  dims.validate();
  run_ranks(dims, [&](World& world) {
    const Groups groups = world.groups();
    ASSERT_TRUE(groups.ep != nullptr && groups.expert_zero != nullptr);
    EXPECT_EQ(groups.ep->rank(), world.at().cp);
    EXPECT_EQ(groups.expert_zero->rank(), world.at().dp);
    for (Group* group : {groups.ep, groups.expert_zero}) {
      ASSERT_EQ(group->size(), 2);
      at::Tensor ranks = at::zeros({2});
      ranks[group->rank()] = static_cast<double>(world.rank());
      group->all_reduce(ranks, "ranks")->wait();
      Coordinates there = world.at();
      for (int64_t place = 0; place < 2; ++place) {
        (group == groups.ep ? there.cp : there.dp) = place;
        EXPECT_EQ(coordinates_of(dims, static_cast<int64_t>(ranks[place].item<float>())), there);
      }
    }
  });
  for (const auto& [ep, dp, cp] : {std::array<int64_t, 3>{4, 2, 2}, {2, 4, 1}, {3, 3, 2}, {6, 3, 2}}) {
    dims.ep = ep, dims.dp = dp, dims.cp = cp;
    dims.validate();
    std::set<std::pair<int64_t, int64_t>> places;
    for (int64_t z = 0; z < dp * cp; ++z) {
      const ExpertCoordinates at = expert_coordinates_of(dims, {.cp = z % cp, .dp = z / cp});
      EXPECT_TRUE(at.ep < ep && at.replica < dp * cp / ep);
      places.emplace(at.ep, at.replica);
    }
    EXPECT_EQ(std::ssize(places), dp * cp) << "two ranks at one place";
  }
}

TEST(World, EveryRankKnowsHowManyShareItsMachine) {
  run_ranks(data_parallel(3), [](World& world) { EXPECT_EQ(world.ranks_here(), 3); });
}

// Who was first to have its groups closed them while others were still being connected: one of some 50 such jobs
// failed.
TEST(World, WhoLeavesAtOnceDisturbsNobodysJoining) {
  for (int round = 0; round < 12; ++round) run_ranks({.tp = 2, .pp = 4}, [](World&) {});
}

TEST(World, EveryRankHearsEveryCommandInOrder) {
  run_ranks(data_parallel(3), [](World& world) {
    for (int i = 0; i < 20; ++i) {
      const std::string command(static_cast<size_t>(i) * 1000, static_cast<char>('a' + i));
      if (world.rank() == 0) world.tell(command);
      else EXPECT_EQ(world.told(), command) << world.rank();
    }
  });
}

TEST(World, ACollectiveThatHangsNamesRankOperationAndStep) {
  constexpr double kTimeout = 1, kMargin = 10;  // of a machine that has much else to do
  Failures failures;
  WorldOptions options;
  options.beat_s = 0.05;
  run_ranks(
      data_parallel(2, kTimeout),
      [&](World& world) {
        world.recorder().at("step 7");
        const auto begun = Clock::now();
        if (world.rank() == 0) {
          EXPECT_THROW(world.groups().zero->all_reduce(at::ones({8}), "gradient norm")->wait(), Error);
        }
        failures.wait_for(2);  // rank 1 never comes to it
        EXPECT_LT(seconds_since(begun), kTimeout + kMargin);
      },
      &failures, options);
  EXPECT_THAT(
      failures.wait_for(2),
      AllOf(SizeIs(2), Each(AllOf(HasSubstr("rank 0: a collective does not end"), HasSubstr("step 7, all_reduce"),
                                  HasSubstr("'gradient norm'"), HasSubstr("rank 1 was at")))));
}

// Weights are on their way to the other ranks from one step to the next, however long that takes to come.
TEST(World, WhatIsDoneDoesNotHangThoughNobodyHasWaitedForItYet) {
  run_ranks(data_parallel(2), [](World& world) {
    const at::Tensor x = at::ones({1000});
    const PendingPtr sum = world.groups().zero->all_reduce(x, "sum"),
                     share = world.groups().zero->reduce_scatter(at::ones({1000}), "share"),
                     all = world.groups().zero->all_gather(at::ones({1000}), "weights");
    const Deadline deadline = Deadline::after(10);
    while (world.recorder().waits_s() > 0 && !deadline.expired()) std::this_thread::yield();
    EXPECT_EQ(world.recorder().waits_s(), 0) << world.recorder().standing();
    for (const PendingPtr* each : {&sum, &share, &all}) (*each)->wait();
    EXPECT_EQ(x[999].item<float>(), 2);
  });
}

TEST(World, ARankThatReportsEndsAllOfThem) {
  Failures failures;
  WorldOptions options;
  options.beat_s = 0.05;
  run_ranks(
      data_parallel(3),
      [&](World& world) {
        if (world.rank() == 1) world.report("no memory for micro-batch 2");
        failures.wait_for(3);
      },
      &failures, options);
  EXPECT_THAT(failures.wait_for(3), AllOf(SizeIs(3), Each(HasSubstr("rank 1: no memory for micro-batch 2"))));
}

TEST(World, WhatIsNoPlaceInTheJobIsRefused) {
  ParallelDims dims = data_parallel(2, 1);
  WorldOptions options;
  options.rank = 2;
  options.rendezvous = "127.0.0.1:1";
  EXPECT_THROW(World(dims, options, at::kCPU, [](const std::string&) {}), Error);
  options.rank = 1;
  options.rendezvous = "nowhere";
  EXPECT_THROW(World(dims, options, at::kCPU, [](const std::string&) {}), Error);
  options.rendezvous = "127.0.0.1:" + std::to_string(free_port());  // nobody listens
  EXPECT_THROW(World(dims, options, at::kCPU, [](const std::string&) {}), Error);
}

}  // namespace
}  // namespace tritonforge::parallel
