#include "base/folder_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/error.h"

namespace tritonforge {
namespace {

class FolderWatchTest : public testing::Test {
 protected:
  static void write(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::app) << text; }
  TemporaryFolder one_{"folder-watch"}, other_{"folder-watch"};
  FolderWatch watch_;
};

TEST_F(FolderWatchTest, EndsAWaitWithAChangeInAnyOfTheFolders) {
  watch_.add(one_.path());
  watch_.add(other_.path());
  EXPECT_FALSE(watch_.wait(0)) << "nothing was changed yet";
  for (const fs::path& folder : {one_.path(), other_.path()}) {
    write(folder / "file", "made");
    EXPECT_TRUE(watch_.wait(10000));
    EXPECT_FALSE(watch_.wait(0)) << "what was seen is seen";
    write(folder / "file", "longer");
    EXPECT_TRUE(watch_.wait(10000));
    fs::rename(folder / "file", folder / "moved in");
    EXPECT_TRUE(watch_.wait(10000));
  }
}

TEST_F(FolderWatchTest, IsWokenOnceWhetherItWaitsAlreadyOrNot) {
  watch_.wake();
  watch_.wake();
  EXPECT_TRUE(watch_.wait());
  EXPECT_FALSE(watch_.wait(0));
  const std::jthread other([this] { watch_.wake(); });
  EXPECT_TRUE(watch_.wait());
}

TEST_F(FolderWatchTest, OfAFolderThatIsNotThereNamesIt) {
  const fs::path none = one_.path() / "none";
  try {
    watch_.add(none);
    FAIL() << "it watches " << none;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot watch " + none.string()));
  }
}

// In a child with a user namespace of its own, whose limits are its own.
TEST(FolderWatchLimit, IsNamedWhereTheUserHasNoMore) {
  struct Case {
    const char *limit, *named;
  };
  for (const Case& one : {Case{"instances", "max_user_instances"}, Case{"watches", "max_user_watches"}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::unshare(CLONE_NEWUSER) != 0) ::_exit(77);
      std::ofstream limit(std::string("/proc/sys/user/max_inotify_") + one.limit);
      limit << 0 << std::flush;
      if (!limit) ::_exit(77);
      try {
        FolderWatch().add("/");
      } catch (const Error& error) {
        ::_exit(std::string(error.what()).find(one.named) == std::string::npos ? 8 : 0);
      }
      ::_exit(9);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << one.limit << ": " << status;
  }
}

}  // namespace
}  // namespace tritonforge
