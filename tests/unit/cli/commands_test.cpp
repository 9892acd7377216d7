#include "cli/commands.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tritonforge::cli {
namespace {

void add_two_commands(CLI::App& app) {
  app.add_subcommand("report")->add_option("folder");
  app.add_subcommand("serve")->require_subcommand(1)->add_subcommand("router");
}

bool names(std::vector<std::string> words) {
  words.insert(words.begin(), "tritonforge");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return names_command(static_cast<int>(argv.size()), argv.data(), add_two_commands);
}

TEST(Commands, AreNamedByTheFirstWords) {
  EXPECT_TRUE(names({"report"}));
  EXPECT_TRUE(names({"report", "a folder", "--json"}));
  EXPECT_TRUE(names({"serve", "router", "--help"}));
  EXPECT_TRUE(names({"--version"}));
}

TEST(Commands, ThatAreNotAmongTheseAreLeftToTheWholeProgram) {
  EXPECT_FALSE(names({}));
  EXPECT_FALSE(names({"--help"}));
  EXPECT_FALSE(names({"serve"}));
  EXPECT_FALSE(names({"serve", "--help"}));
  EXPECT_FALSE(names({"serve", "engine"}));
  EXPECT_FALSE(names({"generate", "report"}));
  EXPECT_FALSE(names({"--version", "report"}));
}

}  // namespace
}  // namespace tritonforge::cli
