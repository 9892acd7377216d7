#include <gtest/gtest.h>

#include "base/log.h"
#include "bench/weight_trainer.h"
#include "gpu/fixture.h"

// gpu_tests trainer PORT: the other process of weights_test.cpp.
int main(int argc, char** argv) {
  using namespace tritonforge;
  if (argc == 3 && std::string(argv[1]) == "trainer") {
    return run_weight_trainer(std::stoi(argv[2]), *gpu::small_model(1, kernels::open_device("cuda")));
  }
  log::start("gpu_tests");  // TRITONFORGE_LOG=debug tells of every CUDA graph
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
