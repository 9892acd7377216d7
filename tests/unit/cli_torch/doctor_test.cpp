#include "cli/torch/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::cli {
namespace {

using ::testing::HasSubstr;

Json healthy() {
  return {{"gpus", Json::array({"nvidia 0, H100"})},
          {"gpu_kernels", true},
          {"refused", Json::array()},
          {"parquet", ""},
          {"evaluator", ""},
          {"python", {{"torch", "2.11.0+cu130"}}},
          {"sandbox", {{"landlock", "enforced: ABI 7"}, {"seccomp", "enforced: no sockets"}}},
          {"breaches", Json::array()},
          {"disk", {{"free_gib", 100.0}}},
          {"memory", {{"available_gib", 64.0}}}};
}

// One fault at a time: `text` and the command that mends it.
void expect_one(const Json& report, bool bad, const std::string& text, const std::string& mend) {
  const auto all = findings(report);
  ASSERT_EQ(all.size(), 1u) << text;
  EXPECT_EQ(all[0].bad, bad);
  EXPECT_THAT(all[0].text, HasSubstr(text));
  EXPECT_THAT(all[0].mend, HasSubstr(mend));
}

Json with(const char* key, const Json& value) {
  Json report = healthy();
  report[key] = value;
  return report;
}

TEST(Doctor, FindsNothingOnAHealthyMachine) { EXPECT_TRUE(findings(healthy()).empty()); }

TEST(Doctor, NamesForEachFindingTheCommandThatMendsIt) {
  expect_one(with("evaluator", "no Python at /x"), true, "no Python at /x", "install");
  expect_one(with("python", {{"torch", "2.10.0"}}), true, "torch is '2.10.0'", "install");
  expect_one(with("gpu_kernels", false), false, "libtritonforge_cuda.so", "make gpu");
  const Json live = {{"what", "mode live"}, {"why", "no C compiler (gcc or clang)"}, {"mend", "apt-get install gcc"}};
  expect_one(with("refused", Json::array({live})), false, "mode live is refused: no C compiler", "apt-get install gcc");
  expect_one(with("parquet", "no Arrow"), false, "no Arrow", "pip install pyarrow==");
  expect_one(with("sandbox", {{"namespaces", "unavailable: EPERM"}}), false, "'namespaces'", "sysctl -w");
  expect_one(with("sandbox", {{"landlock", "unavailable: ENOSYS"}}), false, "'landlock'", "lsm=landlock");
  expect_one(with("sandbox", {{"seccomp", "unavailable: EPERM"}}), false, "'seccomp'", "seccomp=unconfined");
  expect_one(with("breaches", Json::array({"connect"})), true, "connect", "sysctl -w");
  expect_one(with("disk", {{"free_gib", 1.0}}), false, "1.0 GiB of disk", "--output");
  expect_one(with("memory", {{"available_gib", 1.0}}), false, "4 GiB of memory", "ps ");
}

TEST(Doctor, HasNoCommandThatBringsAGpu) {
  const auto all = findings(with("gpus", Json::array()));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].bad);
  EXPECT_EQ(all[0].mend, "");
}

}  // namespace
}  // namespace tritonforge::cli
