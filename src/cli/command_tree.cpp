#include "cli/command_tree.h"

#include <algorithm>

namespace tritonforge::cli {
namespace {

// "which engine takes a request (a | b | c)" -> a, b, c.
std::vector<std::string> allowed_words(const std::string& help) {
  const size_t open = help.rfind('(');
  if (open == std::string::npos || !help.ends_with(')')) return {};
  std::vector<std::string> words;
  std::string inside = help.substr(open + 1, help.size() - open - 2);
  constexpr std::string_view kBetween = " | ";
  for (size_t at = 0; at != std::string::npos;) {
    const size_t next = inside.find(kBetween, at);
    words.push_back(inside.substr(at, next - at));
    at = next == std::string::npos ? next : next + kBetween.size();
  }
  const bool single_words = std::ranges::none_of(
      words, [](const std::string& word) { return word.empty() || word.find(' ') != std::string::npos; });
  return words.size() > 1 && single_words ? words : std::vector<std::string>();
}

FlagOf flag_of(const CLI::Option* option) {
  FlagOf flag{.option = option, .names = {}, .help = option->get_description(), .values = {}};
  for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
  for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
  std::ranges::replace(flag.help, '\n', ' ');
  flag.takes_value = option->get_items_expected_max() > 0;
  if (flag.takes_value) flag.values = allowed_words(flag.help);
  return flag;
}

void add(const CLI::App& app, const std::string& path, std::vector<CommandOf>& tree) {
  const size_t here = tree.size();
  tree.push_back({.app = &app, .path = path, .flags = {}, .below = {}});
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() && !option->get_group().empty()) tree[here].flags.push_back(flag_of(option));
  }
  for (const CLI::App* below : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    tree[here].below.push_back(below);
    add(*below, path.empty() ? below->get_name() : path + " " + below->get_name(), tree);
  }
}

}  // namespace

std::vector<CommandOf> command_tree(const CLI::App& program) {
  std::vector<CommandOf> tree;
  add(program, "", tree);
  return tree;
}

}  // namespace tritonforge::cli
