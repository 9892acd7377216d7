#include "evaluate/plan/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

const std::string kNames =
    R"("ID","Process ID","Kernel Name","CC","dram__bytes.sum","gpu__time_duration.sum","lts__t_sector_hit_rate.pct",)"
    R"("sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active")"
    "\n";
const std::string kUnits = R"("","","","","byte","nsecond","%","%","%")"
                           "\n";
const std::string kConnected = "==PROF== Connected to process 71 (/usr/bin/python3.11)\n";

std::string launch(const std::string& name, const std::string& values) {
  return R"("0","71",")" + name + R"(","9.0",)" + values + "\n";
}

std::string refusal(const std::string& log) {
  const Counted counted = parse_ncu_log(log);
  EXPECT_TRUE(counted.kernels.empty());
  return counted.unavailable;
}

TEST(NcuLog, LaunchesOfAKernelAreOne) {
  const Counted counted = parse_ncu_log(kConnected + kNames + kUnits +
                                        launch("first", R"("8,388,608","3,000","50","10","40")") +
                                        "a line of its program\n" + launch("second", R"("1","10","0","0","0")") +
                                        launch("first", R"("1,000.5","1000","90","50","80")"));
  EXPECT_EQ(counted.unavailable, "");
  ASSERT_EQ(counted.kernels.size(), 2U);
  const KernelCounters& first = counted.kernels[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.launches, 2);
  EXPECT_DOUBLE_EQ(first.dram_bytes, 8389608.5);
  EXPECT_DOUBLE_EQ(first.l2_hit_percent, 60);  // (3 * 50 + 90) / 4
  EXPECT_DOUBLE_EQ(first.sm_percent, 20);
  EXPECT_DOUBLE_EQ(first.occupancy_percent, 50);
}

TEST(NcuLog, QuotesInAName) {
  const Counted counted = parse_ncu_log(kNames + kUnits + launch(R"(k""1"",)", R"("1","1","1","1","1")"));
  ASSERT_EQ(counted.kernels.size(), 1U);
  EXPECT_EQ(counted.kernels[0].name, "k\"1\",");
}

TEST(NcuLog, SaysWhyThereIsNothing) {
  EXPECT_EQ(refusal(""), "ncu printed no counters");
  EXPECT_THAT(refusal("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"),
              HasSubstr("(ERR_NVGPUCTRPERM): run as root"));
  EXPECT_EQ(refusal(kConnected + "==WARNING== No kernels were profiled.\n"), "ncu: No kernels were profiled.");
  EXPECT_EQ(refusal("==ERROR== Failed to connect.\n==ERROR== Later.\n"), "ncu: Failed to connect.");
}

TEST(NcuLog, WhatItDoesNotUnderstandIsRefused) {
  EXPECT_EQ(refusal(R"("ID","Kernel Name")"
                    "\n"),
            "ncu printed no column 'gpu__time_duration.sum'");
  std::string kilobytes = kUnits;
  kilobytes.replace(kilobytes.find("byte"), 4, "Kbyte");
  EXPECT_EQ(refusal(kNames + kilobytes + launch("k", R"("1","1","1","1","1")")),
            "ncu gives dram__bytes.sum in 'Kbyte', not in byte");
  EXPECT_EQ(refusal(kNames + kUnits + launch("k", R"("n/a","1","1","1","1")")),
            "ncu has no dram__bytes.sum of kernel k");
  EXPECT_EQ(refusal(kNames + kUnits + launch("k", R"("-1","1","1","1","1")")),
            "ncu has no dram__bytes.sum of kernel k");
  EXPECT_EQ(refusal(kNames + kUnits + "\"0\",\"71\"\n"), "ncu printed a launch without a kernel's name");
}

}  // namespace
}  // namespace tritonforge::evaluate
