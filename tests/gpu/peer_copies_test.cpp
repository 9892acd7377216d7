// Sums and shares of ranks by the copy engines: to NCCL's bits, and to an end where a rank does not come. Those of two
// GPUs skip where there is one.
#include "gpu/peer_copies.h"

#include <gmock/gmock.h>

#include <csignal>
#include <numeric>

#include "base/process.h"
#include "gpu/fixture.h"
#include "kernels/gpu/handles.h"
#include "unit/parallel/run_ranks.h"

namespace tritonforge::parallel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kSoon = 10;  // seconds that a collective may last
at::Tensor ones(at::Device device) { return at::ones({1 << 20}, at::TensorOptions(at::kBFloat16).device(device)); }

using PeerCopiesKernels = gpu::GpuTest;

TEST_F(PeerCopiesKernels, PartsAreAddedInTheirOrderAndRoundedOnce) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int32_t ranks : {1, 2, 3, 8}) {
      for (const int64_t count : {8, 8184, 8192, 8200, 100000}) {
        std::vector<at::Tensor> parts;
        std::vector<gpu::Buffer> uploaded;
        gpu::AddPartsArgs sum{.x = nullptr, .parts = {}, .ranks = ranks, .fp32 = type == at::kFloat, .count = count};
        at::Tensor expected;
        for (int32_t r = 0; r < ranks; ++r) {
          parts.push_back(at::randn({count}).to(type));
          uploaded.push_back(upload(parts.back()));
          sum.parts[r] = uploaded.back().as<void>();
          expected = r == 0 ? parts[0].to(at::kFloat) : expected + parts.back().to(at::kFloat);
        }
        sum.x = uploaded[static_cast<size_t>(ranks) / 2].as<void>();  // in place, as a rank's own
        gpu::check_cuda(api().add_parts(&sum, stream));
        EXPECT_TRUE(at::equal(download(uploaded[static_cast<size_t>(ranks) / 2], {count}, type), expected.to(type)))
            << at::toString(type) << ", " << ranks << " ranks, " << count;
      }
    }
  }
  gpu::AddPartsArgs odd{.x = nullptr, .parts = {}, .ranks = 2, .fp32 = true, .count = 12};
  EXPECT_NE(api().add_parts(&odd, stream), 0);
}

TEST_F(PeerCopiesKernels, AStreamWaitsForWhatAnotherTells) {
  const gpu::PinnedMemory flags(128);
  auto *asked = flags.as<uint32_t>(), *told = asked + 16;
  *asked = *told = 0;
  const at::Tensor values = at::arange(1 << 20, at::kFloat);
  const gpu::Buffer from = upload(values), to = like({1 << 20}, at::kFloat);
  void* const into = to.as<void>();
  const void* const out = from.as<void>();
  const size_t bytes = values.nbytes();
  const gpu::GpuStream waiting;
  gpu::GpuEvent copied;
  gpu::check_cuda(api().stream_await(asked, 3, waiting));
  gpu::check_cuda(api().copy_beside(&into, &out, &bytes, 1, waiting));
  gpu::check_cuda(api().stream_tell(told, 9, waiting));
  copied.record(waiting);
  gpu::check_cuda(api().stream_tell(asked, 2, stream));  // too little
  gpu::check_cuda(api().stream_synchronize(stream));
  EXPECT_EQ(*static_cast<volatile uint32_t*>(asked), 2u);
  EXPECT_FALSE(copied.done());
  gpu::check_cuda(api().stream_tell(asked, 4, stream));  // more than enough
  copied.wait();
  EXPECT_EQ(*static_cast<volatile uint32_t*>(told), 9u);
  EXPECT_TRUE(at::equal(download(to, {1 << 20}, at::kFloat), values));
}

class PeerCopiesOnGpus : public gpu::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int devices = 0;
    gpu::check_cuda(api().device_count(&devices));
    if (devices < 2) GTEST_SKIP() << "one GPU: two ranks need two";
  }
  static at::Device gpu(int64_t rank) { return kernels::open_device("cuda:" + std::to_string(rank)); }
};

TEST_F(PeerCopiesOnGpus, SumsAndSharesHaveNcclsBits) {
  std::vector<Summed> ways;
  for (const bool copies : {true, false}) {
    WorldOptions options;
    options.rendezvous = "127.0.0.1:" + std::to_string(free_port());
    ChildProcess child(second_rank(options.rendezvous, {"sums", copies ? kCopies : "nccl"}));
    {
      World world(two_ranks(copies), options, gpu(0), [](const std::string& why) { ADD_FAILURE() << why; });
      const Summed& summed = ways.emplace_back(sum_and_share(world, gpu(0)));
      EXPECT_EQ(summed.lent, copies);
      EXPECT_EQ(summed.wrong, 0);
      EXPECT_TRUE(summed.beside);
    }
    EXPECT_EQ(child.wait(Deadline::after(60)), 0);
  }
  ASSERT_EQ(ways[0].last.size(), ways[1].last.size());
  for (size_t i = 0; i < ways[0].last.size(); ++i) EXPECT_TRUE(at::equal(ways[0].last[i], ways[1].last[i])) << i;
}

TEST_F(PeerCopiesOnGpus, RanksThatAreThreadsOfOneProcessGoByNccl) {
  run_ranks(
      two_ranks(true),
      [&](World& world) {
        const Summed summed = sum_and_share(world, gpu(world.rank()), /*rounds=*/2);
        EXPECT_FALSE(summed.lent);
        EXPECT_EQ(summed.wrong, 0);
      },
      nullptr, {}, gpu);
}

// The second rank comes to one sum and to no more. It is there and says so, or is killed.
enum class End { kDoesNotCome, kKilled };

void expect_named_and_ended(bool copies, End end) {
  const bool killed = end == End::kKilled;
  ParallelDims dims = two_ranks(copies, killed ? 60 : kSoon);
  dims.lost_after_s = kSoon / 2;
  Failures failures;
  WorldOptions options;
  options.beat_s = 0.05;
  options.rendezvous = "127.0.0.1:" + std::to_string(free_port());
  ChildProcess child(second_rank(options.rendezvous, {"leaves", copies ? kCopies : "nccl"}));
  const at::Device device = kernels::open_device("cuda:0");
  {
    World world(dims, options, device, [&](const std::string& why) { failures.add(why); });
    const at::Tensor x = ones(device);
    Group& group = *world.groups().zero;
    EXPECT_EQ(group.lend(x), copies);
    group.reduce_scatter(x, "gradients 2")->wait();  // both are there
    kernels::synchronize(device);
    if (killed) child.signal(SIGKILL);
    world.recorder().at("step 7");
    group.reduce_scatter(x, "gradients 1")->wait();
    group.all_gather(x, "weights 1")->wait();
    EXPECT_THAT(failures.wait_for(1),
                ElementsAre(AllOf(HasSubstr(killed ? "rank 1: it " : "rank 0: a collective does not end"),
                                  HasSubstr("step 7, reduce_scatter"), HasSubstr("'gradients 1' of zero"),
                                  HasSubstr("rank 1 was at"))));
  }
  // What was queued behind it has been let go.
  gpu::GpuEvent reached;
  reached.record(nullptr);
  const Deadline deadline = Deadline::after(30);
  while (!reached.done() && !deadline.expired()) std::this_thread::yield();
  EXPECT_TRUE(reached.done());
  EXPECT_EQ(child.wait(Deadline::after(60)), killed ? 128 + SIGKILL : 0);
}

TEST_F(PeerCopiesOnGpus, ARankThatDoesNotComeIsNamedAndTheStreamsGoOn) {
  expect_named_and_ended(true, End::kDoesNotCome);
}
TEST_F(PeerCopiesOnGpus, WithoutThemARankThatDoesNotComeIsNamedAndTheStreamsGoOn) {
  expect_named_and_ended(false, End::kDoesNotCome);
}
TEST_F(PeerCopiesOnGpus, ARankThatIsKilledIsNamedAndTheStreamsGoOn) { expect_named_and_ended(true, End::kKilled); }
TEST_F(PeerCopiesOnGpus, WithoutThemARankThatIsKilledIsNamedAndTheStreamsGoOn) {
  expect_named_and_ended(false, End::kKilled);
}

}  // namespace

int sum_as_second_rank(const std::string& rendezvous, bool copies) {
  const at::Device device = kernels::open_device("cuda");
  World world(two_ranks(copies), as_second_rank(rendezvous), device, [](const std::string&) { std::_Exit(3); });
  const Summed summed = sum_and_share(world, device);
  return summed.lent == copies && summed.wrong == 0 && summed.beside ? 0 : 4;
}

int leave_as_second_rank(const std::string& rendezvous, bool copies) {
  const at::Device device = kernels::open_device("cuda");
  Failures failures;
  World world(two_ranks(copies, kSoon), as_second_rank(rendezvous), device,
              [&](const std::string& why) { failures.add(why); });
  const at::Tensor x = ones(device);
  if (world.groups().zero->lend(x) != copies) return 4;
  world.groups().zero->reduce_scatter(x, "gradients 2")->wait();
  kernels::synchronize(device);
  return failures.wait_for(1).size() == 1 ? 0 : 5;
}

}  // namespace tritonforge::parallel
