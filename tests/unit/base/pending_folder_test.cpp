#include "base/pending_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/error.h"

namespace tritonforge {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class PendingFolderTest : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    return names_in(parent_.path(), [](const fs::path&) { return true; });
  }
  TemporaryFolder parent_{"pending-test"};
  const fs::path wanted_ = parent_.path() / "model";
};

TEST_F(PendingFolderTest, ComesWholeAndReplacesWhatIsThere) {
  for (const char* content : {"old", "new"}) {
    const PendingFolder pending(wanted_ / "");  // with a slash behind it
    write_file_atomic(pending.path() / "file", content);
    pending.put_in_place();
    EXPECT_EQ(read_file(wanted_ / "file"), content);
  }
  EXPECT_THAT(names(), ElementsAre("model"));
}

TEST_F(PendingFolderTest, LeavesNothingWhereItIsGivenUp) {
  { const PendingFolder pending(parent_.path() / "deep/model"); }
  EXPECT_TRUE(fs::is_empty(parent_.path() / "deep"));
}

TEST_F(PendingFolderTest, TakesAwayWhatTheDeadLeftAndNothingElse) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const std::string left = fmt::format("model.tmp-{}", dead), of_another = fmt::format("model-2.tmp-{}", dead);
  const std::string living = fmt::format("model.tmp-{}", ::getppid());
  for (const std::string& name : {left, of_another, living, std::string("model.tmp-mine")})
    write_file_atomic((fs::create_directories(parent_.path() / name), parent_.path() / name / "weights"), "1");
  const std::optional<PendingFolder> pending(std::in_place, wanted_);
  EXPECT_THAT(names(), UnorderedElementsAre(of_another, living, "model.tmp-mine", pending->path().filename().string()));
}

TEST_F(PendingFolderTest, NamesThePlaceThatTakesNone) {
  write_file_atomic(wanted_, "a file");
  try {
    const PendingFolder pending(wanted_ / "below");
    FAIL() << pending.path();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("cannot create " + (wanted_ / "below").string()));
  }
}

}  // namespace
}  // namespace tritonforge
