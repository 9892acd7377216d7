#include <fmt/format.h>

#include "base/build.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/environment.h"

namespace tritonforge::cli {
namespace {

// Text as roff shows it: no dash becomes a hyphen, no line a request.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') result += "\\e";
    else if (c == '-') result += "\\-";
    else result += c;
    if (c == '\n') result += "\\&";
  }
  return result.empty() ? result : "\\&" + result;
}

std::string flag_lines(const CommandOf& command) {
  std::string text;
  for (const FlagOf& flag : command.flags) {
    std::string names;
    for (const std::string& name : flag.names) names += (names.empty() ? "" : ", ") + name;
    const std::string type = flag.takes_value ? flag.option->get_type_name() : "";
    text += fmt::format(".TP\n\\fB{}\\fR{}{}\n{}\n", roff(names), type.empty() ? "" : " ", roff(type), roff(flag.help));
  }
  return text;
}

std::string positionals(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* one) { return one->get_positional(); }))
    text += option->get_required() ? " " + option->get_name(true) : fmt::format(" [{}]", option->get_name(true));
  return text;
}

std::string environment_lines() {
  std::string text = ".SH ENVIRONMENT\n";
  for (const auto& [name, help] : environment_variables())
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(std::string(name)), roff(std::string(help)));
  return text;
}

}  // namespace

std::string manual_page(const CLI::App& program) {
  const auto tree = command_tree(program);
  std::string text = fmt::format(
      ".\\\" Made by `tritonforge manual`.\n.TH TRITONFORGE 1 \"\" \"tritonforge {}\" \"User Commands\"\n"
      ".SH NAME\ntritonforge \\- {}\n.SH SYNOPSIS\n\\fBtritonforge\\fR COMMAND [FLAGS]\n.SH OPTIONS\n{}.SH COMMANDS\n",
      build_info().version, roff(program.get_description()), flag_lines(tree[0]));
  for (size_t i = 1; i < tree.size(); ++i) {
    const CommandOf& command = tree[i];
    text += fmt::format(".SS \"tritonforge {}{}\"\n{}\n", roff(command.path), roff(positionals(*command.app)),
                        roff(command.app->get_description()));
    text += flag_lines(command);
    if (const std::string footer = command.app->get_footer(); !footer.empty())
      text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(footer));
  }
  return text + fmt::format(".SH \"EXIT STATUS\"\n{}\n", roff(program.get_footer())) + environment_lines();
}

void add_manual_command(CLI::App& app) {
  auto* command = app.add_subcommand("manual", "prints the manual page (man(1)) of every command");
  command->footer("example: tritonforge manual > ~/.local/share/man/man1/tritonforge.1");
  command->callback([&app] { fmt::print("{}", manual_page(app)); });
}

}  // namespace tritonforge::cli
