#include "evaluate/device.h"

#include <gtest/gtest.h>

#include "evaluate/zygote.h"

namespace tritonforge::evaluate {
namespace {

class Probe : public ::testing::Test {
 protected:
  Zygote zygote_{{}};
  LoweringPool lowering_{zygote_};
  Deadline deadline_ = Deadline::after(120);
};

TEST_F(Probe, IsRightOnTheCpu) {
  CpuDevice cpu(zygote_, {});
  EXPECT_EQ(probe(cpu, lowering_, deadline_), "");
  EXPECT_EQ(probe(cpu, lowering_, deadline_), "");  // by the same process
}

TEST_F(Probe, SaysHowItsProcessEnded) {
  CpuDevice dying(zygote_, {}, 0, {.part = 1, .seed = 1});
  const std::string wrong = probe(dying, lowering_, Deadline::after(10));
  EXPECT_TRUE(wrong.starts_with("the probe's process ")) << wrong;
  CpuDevice well(zygote_, {}, 1, {.part = 0});
  EXPECT_EQ(probe(well, lowering_, deadline_), "");
  EXPECT_EQ(well.uuid(), "emulated-gfx942:1");
}

// As a GPU's probe has it lowered.
TEST_F(Probe, ItsKernelCompilesForEveryTarget) {
  for (const char* target : {"sm_90", "gfx942"}) {
    const Lowered lowered = lowering_.lower(language_of(Backend::kTriton), probe_kernel(), target, {{"num_warps", 4}},
                                            deadline_, true);
    EXPECT_TRUE(lowered.ok) << target << ": " << lowered.error;
    EXPECT_EQ(lowered.shape.value("entry", ""), "probe");
  }
}

}  // namespace
}  // namespace tritonforge::evaluate
