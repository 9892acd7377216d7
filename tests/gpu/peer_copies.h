#pragma once
// Two ranks, each a process with a GPU: this one, and `gpu_tests rank ADDRESS WORK...` (main.cpp).
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/process.h"
#include "kernels/device.h"
#include "parallel/world.h"

namespace tritonforge::parallel {

inline at::Tensor values_of(int64_t rank, int64_t round, int64_t count, at::ScalarType type, at::Device device) {
  const at::Tensor x = at::arange(count, at::TensorOptions(at::kFloat).device(device));
  return x.mul_(0.37 * static_cast<double>(rank + 1)).add_(static_cast<double>(round)).sin_().to(type);
}

struct Summed {
  bool lent = false;
  int64_t wrong = 0;             // rounds after which a rank had other bits than the sum in fp32, rounded
  bool beside = true;            // what lies beside it is as it was
  std::vector<at::Tensor> last;  // of each size and type, on the CPU
};

// Each round overwrites what the one before has summed, as soon as the stream may; the ranks are late by turns.
inline Summed sum_and_share(World& world, at::Device device, int64_t rounds = 8) {
  Group& group = *world.groups().zero;
  Summed summed{.lent = true};
  const at::Tensor wrong = at::zeros({}, at::TensorOptions(at::kLong).device(device));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    // Less than a share, one of the last rank alone, equal ones and a rest, more than fits into the staging memory.
    for (const int64_t count : {int64_t{8}, int64_t{200}, int64_t{1} << 20, (int64_t{1} << 22) + 520,
                                (int64_t{1} << 27) + (int64_t{1} << 20) + 8}) {
      constexpr int64_t kBefore = 512, kBehind = 1024;
      const at::Tensor arena = at::full({kBefore + count + kBehind}, 7, at::TensorOptions(type).device(device));
      at::Tensor x = arena.narrow(0, kBefore, count);
      summed.lent = group.lend(arena) && summed.lent;
      for (int64_t round = 0; round < rounds; ++round) {
        if ((group.rank() + round) % 2 == 0) values_of(0, 0, int64_t{1} << 28, type, device);
        x.copy_(values_of(group.rank(), round, count, type, device));
        group.reduce_scatter(x, "sum")->wait();
        group.all_gather(x, "shares")->wait();
        at::Tensor expected = values_of(0, round, count, type, device).to(at::kFloat);
        for (int64_t r = 1; r < group.size(); ++r) expected.add_(values_of(r, round, count, type, device));
        wrong.add_(x.ne(expected.to(type)).any());
      }
      for (const at::Tensor& side : {arena.narrow(0, 0, kBefore), arena.narrow(0, kBefore + count, kBehind)})
        summed.beside = summed.beside && side.eq(7).all().item<bool>();
      summed.last.push_back(x.cpu());
    }
  }
  summed.wrong = wrong.item<int64_t>();
  return summed;
}

inline ParallelDims two_ranks(bool peer_copies, double timeout_s = 60) {
  return {.dp = 2, .peer_copies = peer_copies, .timeout_s = timeout_s};
}

constexpr const char* kCopies = "copies";  // the other way is NCCL's

// As in a placed run: it sees the second GPU and no other.
inline ProcessOptions second_rank(const std::string& rendezvous, std::vector<std::string> work) {
  ProcessOptions second;
  second.argv = {fs::read_symlink("/proc/self/exe").string(), "rank", rendezvous};
  second.argv.insert(second.argv.end(), work.begin(), work.end());
  second.env["CUDA_VISIBLE_DEVICES"] = kernels::device_identity(kernels::open_device("cuda:1"));
  return second;
}
inline WorldOptions as_second_rank(const std::string& rendezvous) {
  WorldOptions options;
  options.rank = 1;
  options.rendezvous = rendezvous;
  return options;
}

// WORK `sums` or `leaves`, then the way. 0: it found what it should.
int sum_as_second_rank(const std::string& rendezvous, bool copies);
// Comes to one sum, and then to none; 0 once it was told that a collective does not end.
int leave_as_second_rank(const std::string& rendezvous, bool copies);
// WORK `joins`: joining_test.cpp's first rank; 0 once it was told that joining does not end.
int join_as_first_rank(const std::string& rendezvous);

}  // namespace tritonforge::parallel
