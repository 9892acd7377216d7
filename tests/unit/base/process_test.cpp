#include "base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/descriptor.h"
#include "base/device_lock.h"
#include "base/error.h"
#include "base/log.h"

namespace tritonforge {
namespace {

using ::testing::HasSubstr;

constexpr double kLong = 60;  // a limit that only a fault reaches

ProcessOptions command(std::vector<std::string> argv) {
  ProcessOptions options;
  options.argv = std::move(argv);
  return options;
}

TEST(Process, ExitCodesAndSignalsAreTold) {
  EXPECT_EQ(ChildProcess(command({"sh", "-c", "exit 7"})).wait(Deadline::after(kLong)), 7);
  EXPECT_EQ(ChildProcess(command({"sh", "-c", "kill -9 $$"})).wait(Deadline::after(kLong)), 128 + SIGKILL);
}

TEST(Process, OutputEnvironmentAndFolderAreTheChilds) {
  const TemporaryFolder folder("process-test");
  ProcessOptions options = command({"sh", "-c", "echo $WHO; pwd; echo bad >&2"});
  options.env = {{"WHO", "me"}};
  options.stdout_file = folder.path() / "out";
  options.stderr_file = folder.path() / "err";
  options.working_folder = folder.path();
  EXPECT_EQ(ChildProcess(options).wait(Deadline::after(kLong)), 0);
  EXPECT_EQ(read_file(options.stdout_file), "me\n" + fs::canonical(folder.path()).string() + "\n");
  EXPECT_EQ(read_file(options.stderr_file), "bad\n");
}

TEST(Process, FilesAreAsManyAsAreAllowed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  raise_file_limit();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 131072));
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(Process, WhatCannotStartIsNamed) {
  for (const bool no_folder : {false, true}) {
    ProcessOptions options = command({no_folder ? "true" : "no-such-program"});
    if (no_folder) options.working_folder = "/nowhere";
    try {
      ChildProcess child(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
    }
  }
}

// The child tells its own child's pid through a file that it renames into place.
pid_t grandchild_of(const fs::path& file) {
  while (!fs::exists(file)) ::usleep(1000);  // ends when the child has written it; ctest's limit is the deadline
  return std::stoi(read_file(file));
}

bool gone(pid_t pid) {
  // A killed orphan may stay a zombie until init reaps it: then its state is Z.
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  try {
    return read_file(fmt::format("/proc/{}/stat", pid)).find(") Z") != std::string::npos;
  } catch (const Error&) {  // it went in between
    return true;
  }
}

TEST(Process, TheWholeGroupDiesWithItsObject) {
  const TemporaryFolder folder("process-test");
  const fs::path file = folder.path() / "pid";
  pid_t grandchild = 0;
  {
    ChildProcess child(command({"sh", "-c",
                                "sleep 1000 & echo $! > " + file.string() + ".new; mv " + file.string() + ".new " +
                                    file.string() + "; wait"}));
    grandchild = grandchild_of(file);
    EXPECT_FALSE(child.poll());
  }
  while (!gone(grandchild)) ::usleep(1000);
}

TEST(Process, StopKillsWhatIgnoresTermination) {
  const TemporaryFolder folder("process-test");
  const fs::path file = folder.path() / "pid";
  ChildProcess child(command({"sh", "-c",
                              "trap '' TERM; echo $$ > " + file.string() + ".new; mv " + file.string() + ".new " +
                                  file.string() + "; while :; do sleep 1000; done"}));
  grandchild_of(file);
  child.stop(0.05);
  EXPECT_EQ(child.poll(), 128 + SIGKILL);
}

TEST(Process, AWaitEndsAtItsDeadline) {
  ChildProcess child(command({"sleep", "1000"}));
  EXPECT_EQ(child.wait(Deadline::after(0.01)), std::nullopt);
}

TEST(Process, AnEndIsSeenWhereNoFurtherFileCanBeOpened) {
  ChildProcess child(command({"sleep", "0.1"}));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get()), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Deadline deadline = Deadline::after(kLong);
  EXPECT_EQ(child.wait(deadline), 0);
  EXPECT_FALSE(deadline.expired());
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(RunCommand, GivesOutputAndStopsAtTheDeadline) {
  const CommandOutput done = run_command({"sh", "-c", "echo hello; exit 3"}, kLong);
  EXPECT_EQ(done.exit_code, 3);
  EXPECT_EQ(done.output, "hello\n");
  EXPECT_EQ(run_command({"head", "-c", "300000", "/dev/zero"}, kLong).output.size(), 300000u);
  try {
    run_command({"sleep", "1000"}, 0.05);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("sleep did not finish"));
  }
}

TEST(RunCommand, WhatClosesItsOutputAndGoesOnIsEndedAtTheDeadline) {
  const auto start = Clock::now();
  EXPECT_THROW(run_command({"sh", "-c", "exec >&-; exec sleep 60"}, 0.05), Error);
  EXPECT_LT(seconds_since(start), 30);
}

TEST(FreePort, IsAPort) { EXPECT_GT(free_port(), 1023); }

// Of 1,000 that are drawn one by one from 12,768, forty are drawn twice: half of them by another process here, as by a
// run that begins at the same moment.
TEST(FreePort, IsNotGivenTwiceNorToTwoProcesses) {
  raise_file_limit();
  std::array<int, 2> drawn{}, done{};
  ASSERT_EQ(::pipe(drawn.data()) + ::pipe(done.data()), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    ::close(done[1]);
    for (int i = 0; i < 500; ++i) {
      const int port = free_port();
      if (::write(drawn[1], &port, sizeof port) != sizeof port) ::_exit(1);
    }
    char byte = 0;  // it has them until it ends
    ::_exit(static_cast<int>(::read(done[0], &byte, 1)));
  }
  std::set<int> given;
  int port = 0;
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(given.insert(free_port()).second);
  for (int i = 0; i < 500 && ::read(drawn[0], &port, sizeof port) == sizeof port; ++i)
    EXPECT_TRUE(given.insert(port).second) << port;
  EXPECT_EQ(given.size(), 1000U);
  for (const int fd : {drawn[0], drawn[1], done[0], done[1]}) ::close(fd);
  int status = 0;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

// Forks a process that takes the lock and holds it until it is killed; returns once it has it.
class Holder {
 public:
  Holder(const std::string& device, bool exclusive) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      DeviceLock lock(device);
      const auto hold = exclusive ? lock.exclusive() : lock.shared();
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ready[1]);
    char byte;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Holder() { kill(); }
  pid_t pid() const { return pid_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

// Runs `take` in a child; true where it gets the lock, false where it still waits when `until` has happened.
class Attempt {
 public:
  Attempt(const std::string& device, bool exclusive) {
    EXPECT_EQ(::pipe(done_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      DeviceLock lock(device);
      const auto hold = exclusive ? lock.exclusive() : lock.shared();
      ::_exit(::write(done_[1], "x", 1) == 1 ? 0 : 1);
    }
    ::close(done_[1]);
  }
  ~Attempt() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(done_[0]);
  }
  // Waits for the kernel to say that the process sleeps between two tries.
  void expect_waiting() {
    const std::string path = fmt::format("/proc/{}/syscall", pid_);
    const std::string pause = std::to_string(SYS_clock_nanosleep) + " ";
    while (read_file(path).compare(0, pause.size(), pause) != 0) ::usleep(1000);
  }
  void expect_taken() {
    char byte;
    EXPECT_EQ(::read(done_[0], &byte, 1), 1);
  }

 private:
  pid_t pid_;
  int done_[2];
};

class DeviceLockTest : public ::testing::Test {
 protected:
  std::string device(const char* name) { return names_.emplace_back(fmt::format("test-{}-{}", name, ::getpid())); }
  void TearDown() override {
    for (const auto& name : names_) {
      for (const char* file : {"gate", "lock"})
        fs::remove(fmt::format("/tmp/tritonforge-{}/{}.{}", ::getuid(), name, file));
    }
  }
  std::vector<std::string> names_;
};

TEST_F(DeviceLockTest, ManyShareItAndOneMeasures) {
  const std::string name = device("share");
  Holder a(name, /*exclusive=*/false);
  Attempt(name, /*exclusive=*/false).expect_taken();
  if (!fs::exists("/proc/self/syscall")) GTEST_SKIP() << "no /proc/self/syscall";
  Attempt measurer(name, /*exclusive=*/true);
  measurer.expect_waiting();
  a.kill();  // a killed holder frees it
  measurer.expect_taken();
}

TEST_F(DeviceLockTest, AKilledMeasurerFreesIt) {
  const std::string name = device("killed");
  Holder measurer(name, /*exclusive=*/true);
  if (!fs::exists("/proc/self/syscall")) GTEST_SKIP() << "no /proc/self/syscall";
  Attempt user(name, /*exclusive=*/false), other(name, /*exclusive=*/true);
  user.expect_waiting();
  other.expect_waiting();
  measurer.kill();
  user.expect_taken();
  other.expect_taken();
}

TEST_F(DeviceLockTest, AWaitEndsAndNamesWhoHoldsTheDevice) {
  const std::string name = device("stopped");
  Holder measurer(name, /*exclusive=*/true), user(device("computes"), /*exclusive=*/false);
  ::kill(measurer.pid(), SIGSTOP);
  const auto refusal = [](DeviceLock& lock, bool exclusive) -> std::string {
    try {
      const auto hold = exclusive ? lock.exclusive(Deadline::after(0.05)) : lock.shared(Deadline::after(0.05));
      return "it was free";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      return error.what();
    }
  };
  DeviceLock measured(name), used(names_.back()), other(names_.back());
  const auto held_by = [](const Holder& holder) { return HasSubstr(fmt::format("held by pid {} (", holder.pid())); };
  EXPECT_THAT(refusal(measured, /*exclusive=*/false), held_by(measurer));
  EXPECT_THAT(refusal(measured, /*exclusive=*/true), held_by(measurer));
  EXPECT_THAT(refusal(used, /*exclusive=*/true), held_by(user));
  other.shared(Deadline::after(60));  // whoever gave up keeps nobody out
}

TEST_F(DeviceLockTest, AWaitingMeasurerIsNotOvertaken) {
  const std::string name = device("fair");
  Holder user(name, /*exclusive=*/false);
  if (!fs::exists("/proc/self/syscall")) GTEST_SKIP() << "no /proc/self/syscall";
  Attempt measurer(name, /*exclusive=*/true);
  measurer.expect_waiting();
  Attempt late(name, /*exclusive=*/false);
  late.expect_waiting();  // though the lock itself is only shared
  user.kill();
  measurer.expect_taken();
  late.expect_taken();
}

TEST(Process, ASignalEndsAServerThatStartsAtOnceAndOneThatServesWhenItIsWaitedFor) {
  const auto starting = [] {
    log::start("test");  // to stderr
    SignalWaiter signals;
    const EndsAtSignal ends("engine");
    ::kill(::getpid(), SIGTERM);
    ::pause();
  };
  EXPECT_EXIT(starting(), testing::ExitedWithCode(128 + SIGTERM), "engine stops before it was ready");
  const auto serving = [] {
    SignalWaiter signals;
    { const EndsAtSignal ends("engine"); }
    ::kill(::getpid(), SIGTERM);
    std::_Exit(signals.wait(Deadline::after(kLong)));
  };
  EXPECT_EXIT(serving(), testing::ExitedWithCode(SIGTERM), "^$");
}

TEST(Process, ASignalsDescriptorThatIsNotToBeHadLeavesNoOther) {
  const auto next = [] { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get(); };
  const int first = next();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit one{static_cast<rlim_t>(first) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one), 0);
  EXPECT_THROW(EndsAtSignal("engine"), Error);
  EXPECT_EQ(next(), first);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace tritonforge
