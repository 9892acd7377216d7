#include "base/filesystem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/checksum.h"
#include "base/error.h"
#include "base/line_tail.h"

namespace tritonforge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

Error error_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::kInternal, "no error");
}

// Reading the memory of this process from address 0 fails, as a damaged disk does.
TEST(ReadFile, AFileThatCannotBeReadIsNotTakenForAShortOne) {
  const fs::path damaged = "/proc/self/mem";
  EXPECT_EQ(error_of([&] { read_file(damaged); }).kind(), ErrorKind::kCorrupt);
  const Error error = error_of([&] { checksum_of_file(damaged); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("cannot read /proc/self/mem: Input/output error"));
}

TEST(ReadFile, ANameThatNoFileCanHaveIsOfNoFile) {
  const Error error = error_of([] { read_file(std::string(300, 'a')); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("File name too long"));
}

TEST(WriteFileAtomic, ReplacesTheWholeFileAndLeavesNothingBeside) {
  const TemporaryFolder folder("fs-test");
  const fs::path path = folder.path() / "a.txt";
  write_file_atomic(path, "old");
  write_file_atomic(path, std::string(1 << 20, 'x'));
  EXPECT_EQ(read_file(path), std::string(1 << 20, 'x'));
  EXPECT_THAT(entries(folder.path()), ::testing::ElementsAre("a.txt"));
}

// A file size limit makes write(2) fail in the middle, as a full disk does. In a child, for the limit is the process's.
TEST(WriteFileAtomic, AWriteThatFailsInTheMiddleLeavesTheOldFile) {
  const TemporaryFolder folder("fs-test");
  const fs::path path = folder.path() / "a.txt";
  write_file_atomic(path, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(9);
    const Error error = error_of([&] { write_file_atomic(path, std::string(100000, 'x')); });
    const bool named = std::string(error.what()).find("a.txt") != std::string::npos;
    ::_exit(error.kind() == ErrorKind::kUnavailable && named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(read_file(path), "old");
  EXPECT_THAT(entries(folder.path()), ::testing::ElementsAre("a.txt"));
}

TEST(WriteFileAtomic, AFullDiskIsSaidSo) {
  const TemporaryFolder folder("fs-test");
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "no right to mount a small tmpfs";
  write_file_atomic(folder.path() / "a.txt", "old");
  const Error error = error_of([&] { write_file_atomic(folder.path() / "a.txt", std::string(1 << 20, 'x')); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
  EXPECT_EQ(read_file(folder.path() / "a.txt"), "old");
  EXPECT_THAT(entries(folder.path()), ::testing::ElementsAre("a.txt"));
  ::umount(folder.path().c_str());
}

TEST(PutInPlace, IsThereOrExchanged) {
  const TemporaryFolder folder("place");
  const auto made = [&](const char* name, const char* text) {
    fs::create_directory(folder.path() / name);
    write_file_atomic(folder.path() / name / "file", text);
    return folder.path() / name;
  };
  const fs::path target = folder.path() / "target";
  const fs::path fresh = made("fresh", "first");
  put_in_place(fresh, target);
  EXPECT_EQ(read_file(target / "file"), "first");
  EXPECT_FALSE(fs::exists(fresh));
  made("fresh", "second");
  put_in_place(fresh, target);
  EXPECT_EQ(read_file(target / "file"), "second");
  EXPECT_EQ(read_file(fresh / "file"), "first");
  EXPECT_THROW(put_in_place(folder.path() / "none", target), Error);
  EXPECT_EQ(read_file(target / "file"), "second");
}

TEST(AppendLineDurable, AFullDeviceIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  EXPECT_THAT(error_of([] { append_line_durable("/dev/full", "x"); }).what(), HasSubstr("No space left on device"));
  const TemporaryFolder folder("fs-test");
  append_line_durable(folder.path() / "log", "a");
  append_line_durable(folder.path() / "log", "b");
  EXPECT_EQ(read_file(folder.path() / "log"), "a\nb\n");
}

TEST(AppendLineDurable, WhatAFullDiskOrADeadWriterLeftOfALineIsCutOff) {
  const TemporaryFolder folder("fs-test");
  const fs::path log = folder.path() / "log";
  const std::string whole(5000, 'a'), longer(100'000, 'b');
  append_line_durable(log, whole);
  LineTail tail(log);
  EXPECT_THAT(tail.poll(), ElementsAre(whole));
  // A disk with room for a part of the line: the limit's signal is the process's own business, its error is not.
  const auto signalled = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{.rlim_cur = 20'000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  EXPECT_EQ(error_of([&] { append_line_durable(log, longer); }).kind(), ErrorKind::kUnavailable);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, signalled);
  ASSERT_GT(fs::file_size(log), whole.size() + 1) << "no part of the line was written";
  EXPECT_THAT(tail.poll(), ElementsAre());
  append_line_durable(log, "c");
  EXPECT_EQ(read_file(log), whole + "\nc\n");
  EXPECT_THAT(tail.poll(), ElementsAre("c"));
  // Nothing but a broken line.
  write_file_atomic(log, "brok");
  append_line_durable(log, "d");
  EXPECT_EQ(read_file(log), "d\n");
}

TEST(ReadFile, NamesWhatIsNotThere) {
  EXPECT_EQ(error_of([] { read_file("/nowhere/x"); }).kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error_of([] { read_file("/nowhere/x"); }).what(), HasSubstr("/nowhere/x"));
  EXPECT_EQ(error_of([] { MappedFile("/nowhere/x"); }).kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error_of([] { MappedFile("/tmp"); }).what(), HasSubstr("is not a file"));
  EXPECT_EQ(error_of([] { write_file_atomic("/nowhere/x", ""); }).kind(), ErrorKind::kUnavailable);
}

TEST(MappedFileTest, ShowsTheBytesAndCanBeEmpty) {
  const TemporaryFolder folder("fs-test");
  write_file_atomic(folder.path() / "a", "abc");
  write_file_atomic(folder.path() / "empty", "");
  MappedFile file(folder.path() / "a");
  const MappedFile moved(std::move(file));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(moved.bytes().data()), moved.bytes().size()), "abc");
  EXPECT_TRUE(MappedFile(folder.path() / "empty").bytes().empty());
}

TEST(TemporaryFolderTest, IsPrivateAndGoesWithItsContent) {
  fs::path path;
  {
    const TemporaryFolder folder("fs-test");
    path = folder.path();
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    fs::create_directories(path / "a/b");
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(Checksum, IsXxh3) {
  EXPECT_EQ(checksum(std::string_view("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(checksum(std::string_view("a")), checksum(std::string_view("b")));
}

}  // namespace
}  // namespace tritonforge
