#include "evaluate/self_test.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "evaluate/zygote.h"

namespace tritonforge::evaluate {
namespace {

SelfTest whole() {
  SelfTest test;
  for (const char* layer : {"namespaces", "mounts", "rlimits", "landlock", "seccomp", "control_group"})
    test.layers[layer] = "enforced";
  return test;
}

std::string refusal(const SelfTest& test) {
  try {
    require_strict(SandboxRule::kStrict, test);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMachine);
    return error.what();
  }
}

TEST(SelfTest, StrictDemandsEveryLayer) {
  EXPECT_EQ(refusal(whole()), "");
  for (const char* layer : {"namespaces", "mounts", "rlimits", "landlock", "seccomp"}) {
    SelfTest test = whole();
    test.layers[layer] = "unavailable: not here";
    EXPECT_FALSE(test.holds());
    EXPECT_EQ(refusal(test), std::string("evaluator: --sandbox strict, but the self-test not enforced: ") + layer +
                                 ": unavailable: not here");
    require_strict(SandboxRule::kAuto, test);  // says so and goes on
    test.layers.erase(layer);
    EXPECT_NE(refusal(test).find(std::string(layer) + ": not reported"), std::string::npos);
  }
  SelfTest partly = whole();
  partly.layers["rlimits"] = "partly: cpu; unavailable: address_space";
  EXPECT_NE(refusal(partly), "");
}

TEST(SelfTest, StrictAloneDemandsAControlGroup) {
  SelfTest test = whole();
  test.layers["control_group"] = "unavailable: no control group was delegated to this process";
  EXPECT_TRUE(test.holds());
  EXPECT_NE(refusal(test).find("not enforced: control_group: unavailable: no control group was"), std::string::npos);
}

TEST(SelfTest, StrictDemandsThatNoAttemptSucceeded) {
  SelfTest test = whole();
  test.breaches = {"connect"};
  EXPECT_NE(refusal(test).find("broke out: connect"), std::string::npos);
}

TEST(SelfTest, WhatCouldNotBeTriedIsNotRefused) {
  EXPECT_TRUE(was_refused("EPERM"));
  EXPECT_FALSE(was_refused("succeeded"));
  EXPECT_FALSE(was_refused("not tried: AttributeError: module 'os' has no attribute 'unshare'"));
  EXPECT_FALSE(was_refused("Exception in it"));
  EXPECT_FALSE(was_refused(""));
}

// Every attempt is made and refused, or it would show nothing.
TEST(SelfTestOfAChild, TriesItsSiblingsAbstractSocketsAndDescriptors) {
  Zygote zygote({});
  const SelfTest test = test_sandbox(zygote, false, Deadline::after(60));
  for (const char* name : {"unshare", "abstract_socket", "leaked_descriptor", "ptrace_sibling", "read_sibling",
                           "kill_sibling", "ptrace_zygote", "read_zygote", "kill_zygote", "memory", "fork_bomb"}) {
    ASSERT_TRUE(test.attempts.contains(name)) << name;
    EXPECT_TRUE(test.attempts.at(name).starts_with("E")) << name << ": " << test.attempts.at(name);
  }
  EXPECT_TRUE(test.breaches.empty()) << fmt::format("{}", fmt::join(test.breaches, ", "));
}

// As on a GPU, whose compilers are processes of the child.
TEST(SelfTestOfAChild, EndsAForkBombInOneThatMayForkFromOutside) {
  Zygote zygote({});
  ChildLimits limits{.cpu_s = 20, .memory_bytes = uint64_t{64} << 30, .address_space = false, .processes = true};
  const std::string told = try_fork_bomb(zygote, limits, Deadline::after(60));
  EXPECT_TRUE(was_refused(told)) << told;
}

}  // namespace
}  // namespace tritonforge::evaluate
