// A trainer's group over NCCL: what it brings, and that its deadlines hold where a rank does not come.
#include <future>

#include "base/error.h"
#include "gpu/fixture.h"
#include "kernels/device.h"
#include "weights/group.h"

namespace tritonforge::weights {
namespace {

using GroupOverNccl = gpu::GpuTest;
using Pair = std::array<std::unique_ptr<BroadcastGroup>, 2>;

// Both ranks, threads of one process.
Pair joined(int port, const std::array<at::Device, 2>& devices) {
  const auto join = [&](int rank) {
    return join_group({"127.0.0.1", port, rank, 2, "test", "nccl"}, devices[static_cast<size_t>(rank)],
                      Deadline::after(30));
  };
  auto first = std::async(std::launch::async, join, 0);
  auto second = join(1);
  return {first.get(), std::move(second)};
}

void expect_given_up(BroadcastGroup& group) {
  const at::Tensor x = at::zeros({1 << 20}, at::TensorOptions(at::kBFloat16).device(group.device()));
  try {
    group.broadcast(x, Deadline::after(2));
    FAIL() << "nobody was there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
  }
}

TEST_F(GroupOverNccl, ARankThatNeverOpensItIsWaitedForUntilTheDeadline) {
  const at::Device device = kernels::open_device("cuda:0");
  const Pair pair = joined(29871, {device, device});
  expect_given_up(*pair[0]);
}

TEST_F(GroupOverNccl, BringsTheTensorsAndARankThatStopsIsWaitedForUntilTheDeadline) {
  int devices = 0;
  gpu::check_cuda(gpu::open_cuda_library().device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "one GPU: a group needs two";
  const Pair pair = joined(29872, {kernels::open_device("cuda:0"), kernels::open_device("cuda:1")});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kByte}) {
    const at::Tensor sent = at::arange(1001, at::TensorOptions(type).device(pair[0]->device()));
    const at::Tensor received = at::zeros({1001}, at::TensorOptions(type).device(pair[1]->device()));
    auto sending = std::async(std::launch::async, [&] { pair[0]->broadcast(sent, Deadline::after(30)); });
    pair[1]->broadcast(received, Deadline::after(30));
    sending.get();
    EXPECT_TRUE(at::equal(received.cpu(), sent.cpu())) << at::toString(type);
  }
  expect_given_up(*pair[1]);
}

}  // namespace
}  // namespace tritonforge::weights
