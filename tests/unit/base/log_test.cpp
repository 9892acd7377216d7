#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tritonforge::log
