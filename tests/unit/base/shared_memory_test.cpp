#include "base/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tritonforge {
namespace {

std::string name_of_test() { return "unit-" + std::to_string(::getpid()); }

TEST(SharedFolder, GoesWithTheLastThatHasIt) {
  fs::path path;
  {
    const SharedFolder first(name_of_test());
    path = first.path();
    write_file_atomic(path / "weights", "w");
    {
      const SharedFolder second(name_of_test());
      EXPECT_EQ(read_file(second.path() / "weights"), "w");
    }
    EXPECT_TRUE(fs::exists(path / "weights"));
    SharedFolder::sweep();
    EXPECT_TRUE(fs::exists(path / "weights"));  // somebody has it
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(SharedFolder, WhatAKilledProcessLeftIsSwept) {
  const std::string name = name_of_test();
  const fs::path path = "/dev/shm/tritonforge-" + name;
  const pid_t child = ::fork();
  if (child == 0) {
    new SharedFolder(name);
    ::_exit(0);  // without a destructor
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(fs::exists(path));
  EXPECT_THAT(SharedFolder::sweep(), testing::Contains(path));
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace tritonforge
