// A rank that is there and does not join NCCL, which itself would wait for ever.
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "gpu/fixture.h"
#include "gpu/peer_copies.h"
#include "unit/parallel/run_ranks.h"

namespace tritonforge::parallel {
namespace {

constexpr double kSoon = 5;  // seconds that joining may last

// Rank 1 until `ended`: it meets the other, says where it is, and comes no further.
void stay_outside(const std::string& rendezvous, const std::stop_token& ended) {
  Meeting meeting("http://" + rendezvous, "");
  FlightRecorder recorder;
  std::unique_ptr<Group> all;
  while (!ended.stop_requested()) {
    try {
      if (all == nullptr && meeting.look("open", 1))
        all = make_gloo_group("all", 1, 2, kShareUnit, {"127.0.0.1", meeting, recorder, 60});
      meeting.beat(1, "a loop of its own");
    } catch (const Error&) {  // rank 0 does not listen yet, or no longer
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

using JoiningOnGpu = gpu::GpuTest;

TEST_F(JoiningOnGpu, ARankThatNeverJoinsIsNoticed) {
  const std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());
  ProcessOptions first;
  first.argv = {fs::read_symlink("/proc/self/exe").string(), "rank", rendezvous, "joins", "nccl"};
  ChildProcess child(first);
  const std::jthread outside([&](const std::stop_token& ended) { stay_outside(rendezvous, ended); });
  EXPECT_EQ(child.wait(Deadline::after(120)), 0);
}

}  // namespace

int join_as_first_rank(const std::string& rendezvous) {
  WorldOptions options;
  options.rendezvous = rendezvous;
  options.beat_s = 0.05;
  const World world(two_ranks(/*peer_copies=*/false, kSoon), options, kernels::open_device("cuda"),
                    [](const std::string& why) {  // on the watch's thread: the constructor never returns
                      const bool named = why.find("rank 0: a collective does not end: the start, join ") == 0 &&
                                         why.find("'NCCL' of zero") != std::string::npos;
                      if (!named) fmt::print(stderr, "{}\n", why);
                      std::_Exit(named ? 0 : 5);
                    });
  return 6;
}

}  // namespace tritonforge::parallel
