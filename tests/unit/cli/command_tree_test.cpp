#include "cli/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tritonforge::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Program {
  CLI::App app{"makes things", "tritonforge"};
  std::string policy, name, file;
  bool quick = false;
  Program() {
    auto* serve = app.add_subcommand("serve", "runs one of it's servers");
    auto* router = serve->add_subcommand("router", "one address");
    router->add_option("--policy", policy, "which (fast | fair)");
    router->add_option("--file,-f", file, "a file (of any kind)");
    router->add_flag("--quick", quick, "at once");
    app.add_subcommand("agent", "what launchers start")->group("");
    app.add_subcommand("run", "goes")->add_option("recipe", name, "YAML")->required();
  }
};

TEST(CommandTree, HasEveryCommandWithItsFlagsButThoseThatProgramsStart) {
  Program program;
  const auto tree = command_tree(program.app);
  std::vector<std::string> paths;
  for (const CommandOf& command : tree) paths.push_back(command.path);
  EXPECT_THAT(paths, ElementsAre("", "serve", "serve router", "run"));
  const auto& flags = tree[2].flags;
  ASSERT_EQ(flags.size(), 4u);  // --help first
  EXPECT_THAT(flags[1].values, ElementsAre("fast", "fair"));
  EXPECT_THAT(flags[2].names, ElementsAre("--file", "-f"));
  EXPECT_TRUE(flags[2].takes_value && flags[2].values.empty());
  EXPECT_FALSE(flags[3].takes_value);
}

TEST(CommandTree, GivesFishALineAFlagAndQuotesIt) {
  Program program;
  const std::string fish = fish_completion(program.app);
  EXPECT_THAT(fish, HasSubstr("-n '__tritonforge_at \"serve router\"' -l policy -x -a 'fast fair' -d"));
  EXPECT_THAT(fish, HasSubstr("-a serve -d 'runs one of it\\'s servers'"));
  EXPECT_THAT(fish, Not(HasSubstr("agent")));
}

TEST(CommandTree, GivesZshDescriptionsAndTheValuesOfAFlag) {
  Program program;
  const std::string zsh = zsh_completion(program.app);
  EXPECT_THAT(zsh, HasSubstr("'serve router --policy') compadd -- fast fair; return"));
  EXPECT_THAT(zsh, HasSubstr("'serve:runs one of it'\\''s servers'"));
}

TEST(CommandTree, WritesAManualThatEscapesWhatRoffWouldRead) {
  Program program;
  const std::string page = manual_page(program.app);
  EXPECT_THAT(page, HasSubstr(".SS \"tritonforge \\&run\\& recipe\""));
  EXPECT_THAT(page, HasSubstr("\\fB\\&\\-\\-policy\\fR"));
  EXPECT_THAT(page, Not(HasSubstr("agent")));
}

}  // namespace
}  // namespace tritonforge::cli
