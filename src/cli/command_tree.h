#pragma once
// What a user may type, read from the CLI11 definition: for completions and the manual, which so cannot fall behind it.
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tritonforge::cli {

struct FlagOf {
  const CLI::Option* option;
  std::vector<std::string> names;  // "--port", "-h"
  std::string help;                // one line
  bool takes_value = false;
  std::vector<std::string> values;  // where only these are allowed: what the help ends with, "(a | b)"
};
struct CommandOf {
  const CLI::App* app;
  std::string path;  // "serve router"; "" of the program itself
  std::vector<FlagOf> flags;
  std::vector<const CLI::App*> below;  // the commands that follow it
};
// The program first, each command before those below it; without commands that only programs start.
std::vector<CommandOf> command_tree(const CLI::App& program);

std::string bash_completion(const CLI::App& program);
std::string zsh_completion(const CLI::App& program);
std::string fish_completion(const CLI::App& program);
std::string manual_page(const CLI::App& program);  // roff, for man(1)

}  // namespace tritonforge::cli
