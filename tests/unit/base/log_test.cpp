#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log_diverted.h"

namespace tritonforge::log {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(Log, LinesGoToStderrButForThoseThatAreDiverted) {
  start("a-role");
  std::vector<std::string> lines;
  ::testing::internal::CaptureStderr();
  info("before {}", 1);
  {
    const Diverted diverted([&](std::string line) { lines.push_back(std::move(line)); });
    warn("within {}", 2);
    debug("not of this level");
  }
  info("after {}", 3);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, ElementsAre(EndsWith(" W [a-role] within 2")));
  EXPECT_THAT(told, HasSubstr(" I [a-role] before 1\n"));
  EXPECT_THAT(told, HasSubstr(" I [a-role] after 3\n"));
  EXPECT_THAT(told, ::testing::Not(HasSubstr("within")));
}

TEST(Log, ALevelThatThereIsNotIsRefusedAndSilencesNothing) {
  ::setenv("TRITONFORGE_LOG", "warnings", 1);
  try {
    start("a-role");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "TRITONFORGE_LOG: unknown level 'warnings' (did you mean 'warn'?)");
  }
  ::setenv("TRITONFORGE_LOG", "", 1);  // as good as none
  start("a-role");
  EXPECT_TRUE(spdlog::should_log(spdlog::level::info));
  ::unsetenv("TRITONFORGE_LOG");
}

}  // namespace
}  // namespace tritonforge::log
