#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/command_tree.h"
#include "cli/commands.h"

namespace tritonforge::cli {
namespace {

std::vector<std::string> words_of(const CommandOf& command) {
  std::vector<std::string> words;
  for (const CLI::App* below : command.below) words.push_back(below->get_name());
  for (const FlagOf& flag : command.flags) words.insert(words.end(), flag.names.begin(), flag.names.end());
  return words;
}

// In single quotes, which no shell reads anything into.
std::string quoted(const std::string& text, const char* quote = "'\\''") {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? quote : std::string(1, c);
  return result + "'";
}

// The words that lead from one command to one below it, as patterns of a case.
std::string find_path(const std::vector<CommandOf>& tree) {
  std::string cases;
  for (const CommandOf& command : tree) {
    for (const CLI::App* below : command.below)
      cases += fmt::format("{}{}", cases.empty() ? "" : " | ",
                           quoted(fmt::format("{} {}", command.path, below->get_name())));
  }
  return cases;
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  const auto tree = command_tree(program);
  std::string values, words, files;  // files: the flags whose values are anything, completed as names of files
  for (const CommandOf& command : tree) {
    for (const FlagOf& flag : command.flags) {
      if (!flag.takes_value) continue;
      for (const std::string& name : flag.names) {
        const std::string at = quoted(command.path + " " + name);
        if (flag.values.empty()) files += (files.empty() ? "" : " | ") + at;
        else
          values += fmt::format("    {}) mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$cur\"); return ;;\n", at,
                                fmt::join(flag.values, " "));
      }
    }
    words += fmt::format("    {}) words='{}' ;;\n", quoted(command.path), fmt::join(words_of(command), " "));
  }
  return fmt::format(R"(# bash completion of tritonforge, made by `tritonforge completion bash`.
_tritonforge() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} path='' words='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$path ${{COMP_WORDS[i]}}" in
    {}) path="${{path:+$path }}${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$path $previous" in
{}    {}) return ;;
  esac
  case "$path" in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}}
complete -o default -F _tritonforge tritonforge
)",
                     find_path(tree), values, files, words);
}

std::string zsh_completion(const CLI::App& program) {
  const auto tree = command_tree(program);
  const auto described = [](const std::string& name, const std::string& help) {
    std::string escaped;
    for (const char c : name) escaped += c == ':' ? "\\:" : std::string(1, c);
    return quoted(escaped + ":" + help);
  };
  std::string values, words;
  for (const CommandOf& command : tree) {
    words += fmt::format("    {}) words_here=(\n", quoted(command.path));
    for (const CLI::App* below : command.below)
      words += fmt::format("      {}\n", described(below->get_name(), below->get_description()));
    for (const FlagOf& flag : command.flags) {
      for (const std::string& name : flag.names) {
        words += fmt::format("      {}\n", described(name, flag.help));
        if (flag.takes_value)
          values += fmt::format(
              "    {}) {}; return ;;\n", quoted(command.path + " " + name),
              flag.values.empty() ? "_files" : fmt::format("compadd -- {}", fmt::join(flag.values, " ")));
      }
    }
    words += "      ) ;;\n";
  }
  return fmt::format(R"(#compdef tritonforge
# zsh completion of tritonforge, made by `tritonforge completion zsh`.
_tritonforge() {{
  local at='' i
  local -a words_here
  for ((i = 2; i < CURRENT; ++i)); do
    case "$at $words[i]" in
    {}) at="${{at:+$at }}$words[i]" ;;
    esac
  done
  case "$at $words[CURRENT-1]" in
{}  esac
  case "$at" in
{}  esac
  _describe 'tritonforge' words_here
  [[ $words[CURRENT] == -* ]] || _files
}}
_tritonforge "$@"
)",
                     find_path(tree), values, words);
}

std::string fish_completion(const CLI::App& program) {
  const auto tree = command_tree(program);
  std::string lines, cases;
  for (const CommandOf& command : tree) {
    const std::string at = fmt::format("complete -c tritonforge -n {}",
                                       quoted("__tritonforge_at \"" + command.path + "\"", "\\'"));
    for (const CLI::App* below : command.below) {
      cases += " " + quoted(fmt::format("{} {}", command.path, below->get_name()));
      lines += fmt::format("{} -a {} -d {}\n", at, below->get_name(), quoted(below->get_description(), "\\'"));
    }
    for (const FlagOf& flag : command.flags) {
      lines += at;
      for (const std::string& name : flag.names)
        lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.values.empty()) lines += fmt::format(" -x -a '{}'", fmt::join(flag.values, " "));
      else if (flag.takes_value) lines += " -r";
      lines += fmt::format(" -d {}\n", quoted(flag.help, "\\'"));
    }
  }
  return fmt::format(R"(# fish completion of tritonforge, made by `tritonforge completion fish`.
function __tritonforge_at
    set -l at ''
    for word in (commandline -opc)[2..]
        if contains -- "$at $word"{}
            set at (string trim -- "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end
{})",
                     cases, lines);
}

void add_completion_command(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "prints the completion of this command line for a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash | zsh | fish")->required();
  command->footer(
      "example: tritonforge completion bash > ~/.local/share/bash-completion/completions/tritonforge\n"
      "         tritonforge completion zsh > \"${fpath[1]}/_tritonforge\"\n"
      "         tritonforge completion fish > ~/.config/fish/completions/tritonforge.fish");
  command->callback([&app, shell] {
    if (*shell == "bash") fmt::print("{}", bash_completion(app));
    else if (*shell == "zsh") fmt::print("{}", zsh_completion(app));
    else if (*shell == "fish") fmt::print("{}", fish_completion(app));
    else
      fail(ErrorKind::kUsage, "there is no completion for '{}'{}", *shell,
           nearest_hint(*shell, {"bash", "zsh", "fish"}));
  });
}

}  // namespace tritonforge::cli
