#include "base/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/file_lock.h"

namespace {
int refusal_of_flock = 0;  // an errno
}

// In the place of the C library's, for the whole program: a file system without locks is not to be had everywhere.
extern "C" int flock(int fd, int how) noexcept {
  if (refusal_of_flock == 0) return static_cast<int>(::syscall(SYS_flock, fd, how));
  errno = refusal_of_flock;
  return -1;
}

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

TEST(SharedFolder, WithoutLocksItsPlaceIsNamed) {
  const TemporaryFolder parent("shared-folder");
  for (const int refusal : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    refusal_of_flock = refusal;
    try {
      const SharedFolder folder("locks", parent.path());
      ADD_FAILURE() << "it was taken without a lock";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMachine);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr((parent.path() / "tritonforge-locks").string() + " cannot be locked"));
    }
    refusal_of_flock = 0;
  }
}

TEST(FileLock, IsAnothersUntilItGoes) {
  const TemporaryFolder folder("file-lock");
  const auto open = [&] { return Descriptor(::open((folder.path() / "lock").c_str(), O_RDWR | O_CREAT, 0600)); };
  const Descriptor second = open();
  {
    const Descriptor first = open();
    EXPECT_TRUE(lock_file(first.get(), LOCK_EX | LOCK_NB, folder.path()));
    EXPECT_FALSE(lock_file(second.get(), LOCK_EX | LOCK_NB, folder.path()));
  }
  EXPECT_TRUE(lock_file(second.get(), LOCK_EX | LOCK_NB, folder.path()));
}

}  // namespace
}  // namespace tritonforge
