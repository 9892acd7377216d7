#include "evaluate/control_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "evaluate/children.h"

extern "C" int tritonforge_fork_apart(const char* options, int* pidfd);

namespace tritonforge::evaluate {
namespace {

using ::testing::HasSubstr;

// A folder with the files that the kernel would have in a group.
class ControlGroupTest : public testing::Test {
 protected:
  ControlGroupTest() : own_("control-group-test-") { write("cgroup.controllers", "cpuset cpu io memory pids\n"); }
  void write(const fs::path& file, const std::string& text) const { write_file_atomic(own_.path() / file, text); }
  std::string read(const fs::path& file) const { return read_file(own_.path() / file); }

  TemporaryFolder own_;
};

TEST_F(ControlGroupTest, ThisProcessMovesBelowAndAChildIsBound) {
  const ControlGroups groups(own_.path());
  EXPECT_EQ(groups.missing(), "");
  EXPECT_EQ(groups.bounds(), "memory, processes, share of the CPU");
  EXPECT_EQ(read("tritonforge/cgroup.procs"), std::to_string(::getpid()));
  EXPECT_EQ(read("cgroup.subtree_control"), "+memory +pids +cpu");
  const auto group = groups.make("child-1", {.file_bytes = 1 << 20, .memory_bytes = 3 << 20});
  ASSERT_TRUE(group);
  EXPECT_EQ(read("child-1/memory.max"), std::to_string(68 << 20));  // with 64 MiB of /dev/shm
  EXPECT_EQ(read("child-1/memory.swap.max"), "0");
  EXPECT_EQ(read("child-1/pids.max"), "32");
  EXPECT_EQ(read("child-1/cpu.weight"), "50");
  const auto compiler = groups.make("child-2", ChildLimits().with_gpu());
  EXPECT_EQ(read("child-2/pids.max"), "512");
  EXPECT_EQ(read("child-2/cpu.weight"), "100");
}

TEST_F(ControlGroupTest, TellsWhoIsInItAndWhatItsEndWas) {
  const ControlGroups groups(own_.path());
  const auto group = groups.make("child-1", {});
  EXPECT_FALSE(group->holds(71));
  EXPECT_FALSE(group->ran_out_of_memory());
  write("child-1/cgroup.procs", "7\n71\n");
  write("child-1/memory.events", "low 0\nmax 3\noom 1\noom_kill 0\n");
  EXPECT_TRUE(group->holds(71));
  EXPECT_FALSE(group->ran_out_of_memory());
  write("child-1/memory.events", "low 0\nmax 3\noom 1\noom_kill 1\n");
  EXPECT_TRUE(group->ran_out_of_memory());
}

TEST_F(ControlGroupTest, AGroupWhoseChildIsAboutToEndGoesLater) {
  const ControlGroups groups(own_.path());
  groups.make("child-1", {});  // its files keep its folder, as processes would
  EXPECT_TRUE(fs::exists(own_.path() / "child-1"));
  for (const char* file : {"memory.max", "memory.swap.max", "pids.max", "cpu.weight"})
    fs::remove(own_.path() / "child-1" / file);
  groups.make("child-2", {});
  EXPECT_FALSE(fs::exists(own_.path() / "child-1"));
}

TEST_F(ControlGroupTest, SaysWhatIsMissing) {
  write("cgroup.controllers", "cpu io memory\n");
  const ControlGroups groups(own_.path());
  EXPECT_THAT(groups.missing(), HasSubstr("has no controller 'pids'"));
  EXPECT_EQ(groups.make("child-1", {}), nullptr);
  EXPECT_FALSE(fs::exists(own_.path() / "tritonforge"));
}

TEST_F(ControlGroupTest, WhereOthersAreInTheGroupThisProcessStays) {
  fs::create_directory(own_.path() / "cgroup.subtree_control");  // so that writing fails
  const ControlGroups groups(own_.path());
  EXPECT_THAT(groups.missing(), HasSubstr("holds other processes, too"));
  EXPECT_EQ(read("cgroup.procs"), std::to_string(::getpid()));
}

// A real group, where this machine lets us make one; the controllers are not needed for that.
class ControlGroupOfLinux : public testing::Test {
 protected:
  void SetUp() override {
    for (const fs::path root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const fs::path group = root / fmt::format("tritonforge-test-{}", ::getpid());
      std::error_code error;
      if (!fs::exists(root / "cgroup.procs") || !fs::create_directory(group, error)) continue;
      if (fs::exists(group / "cgroup.events")) made_ = group;  // of version 2
      else fs::remove(group);
    }
    if (made_.empty()) GTEST_SKIP() << "no control group of version 2 can be made here";
  }
  // A child in it, which ends by a signal alone.
  pid_t begin_child() const {
    int pidfd = -1;
    const Json options = {{"control_group", made_.string()}};
    const pid_t child = tritonforge_fork_apart(options.dump().c_str(), &pidfd);
    if (child == 0) {
      ::pause();
      ::_exit(0);
    }
    ::close(pidfd);
    return child;
  }
  fs::path made_;
};

TEST_F(ControlGroupOfLinux, AChildBeginsInItsOwn) {
  const auto left = std::make_shared<LeftGroups>();
  {
    const ControlGroup group(made_, left);
    const pid_t child = begin_child();
    ASSERT_GT(child, 0);
    EXPECT_TRUE(group.holds(child));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  left->remove();
  EXPECT_FALSE(fs::exists(made_));
}

// As where a server ends: nobody makes a further group, which would have removed it.
TEST_F(ControlGroupOfLinux, WhatIsLeftEndsWithTheServer) {
  pid_t child = -1;
  {
    const auto left = std::make_shared<LeftGroups>();
    const ControlGroup group(made_, left);
    child = begin_child();
    ASSERT_GT(child, 0);
  }
  EXPECT_FALSE(fs::exists(made_));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
}

}  // namespace
}  // namespace tritonforge::evaluate
