#include <ATen/Parallel.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/log.h"
#include "bench/weight_engine.h"
#include "bench/weight_trainer.h"
#include "gpu/fixture.h"
#include "gpu/peer_copies.h"
#include "gpu/ranks.h"

namespace {

// A GPU machine has no debugger of ours: addresses for addr2line.
void say_where(int signal) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

// gpu_tests trainer PORT, gpu_tests engine PORT: the other processes of weights_test.cpp; rank HOST:PORT
// sums|leaves|joins|trains...: that of peer_copies_test.cpp, joining_test.cpp and ranks_test.cpp.
int main(int argc, char** argv) {
  using namespace tritonforge;
  if (argc == 3 && std::string(argv[1]) == "trainer") {
    return run_weight_trainer(std::stoi(argv[2]), *gpu::small_model(1, kernels::open_device("cuda")));
  }
  if (argc == 3 && std::string(argv[1]) == "engine") {
    return run_weight_engine(std::stoi(argv[2]), gpu::small_engine_options(),
                             gpu::small_model(2, kernels::open_device("cuda")));
  }
  if (argc >= 5 && std::string(argv[1]) == "rank") {
    const std::string address = argv[2], work = argv[3];
    const bool copies = std::string(argv[4]) == parallel::kCopies;
    if (work == "sums") return parallel::sum_as_second_rank(address, copies);
    if (work == "leaves") return parallel::leave_as_second_rank(address, copies);
    if (work == "joins") return parallel::join_as_first_rank(address);
    if (argc == 7) return train::train_as_second_rank(address, argv[4], argv[5], argv[6]);
  }
  // The references are many small operations: beside other work a team of all cores waits for its last one.
  constexpr int kThreads = 4;
  at::set_num_threads(std::min(kThreads, at::get_num_threads()));
  log::start("gpu_tests");  // TRITONFORGE_LOG=debug tells of every CUDA graph
  std::signal(SIGSEGV, say_where);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
