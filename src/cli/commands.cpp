#include "cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/build.h"
#include "base/error.h"
#include "base/filesystem.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/environment.h"

namespace tritonforge::cli {
namespace {

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

const CLI::App* subcommand_of(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

bool takes_subcommand(const CLI::App& app) {
  return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

// CLI11 says which word it did not expect; the nearest known name of the deepest command reached is added.
int report_usage(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help
  const CLI::App* at = &app;
  std::string unknown;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string flag = word.substr(0, word.find('='));
    const auto known = names_of(*at);
    if (word.rfind("--", 0) == 0) {
      if (std::find(known.begin(), known.end(), flag) == known.end()) unknown = flag;
    } else if (const CLI::App* next = subcommand_of(*at, word)) {
      at = next;
    } else if (takes_subcommand(*at)) {
      unknown = word;
    }
    if (!unknown.empty()) {
      fmt::print(stderr, "tritonforge: unknown {} '{}'{}\n", unknown[0] == '-' ? "flag" : "command", unknown,
                 nearest_hint(unknown, known));
      return 2;
    }
  }
  const std::string command = at == &app ? "tritonforge" : "tritonforge " + at->get_name();
  if (takes_subcommand(*at)) fmt::print(stderr, "{}: which command? {} --help lists them\n", command, command);
  else fmt::print(stderr, "{}: {}\n", command, error.what());
  return 2;
}

// Of what a command printed a part may wait in memory: where it cannot be written, the command has not done its work.
int end_with(int code) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  fmt::print(stderr, "tritonforge: cannot write to standard output: {}\n", std::strerror(errno));
  return exit_code(ErrorKind::kUnavailable);
}

}  // namespace

int run(int argc, char** argv, AddCommands add_commands) {
  raise_file_limit();
  CLI::App app{"TritonForge: turns a language model into a writer of fast, correct GPU kernels", "tritonforge"};
  app.require_subcommand(1);
  const BuildInfo& build = build_info();
  app.set_version_flag("--version",
                       fmt::format("tritonforge {} (commit {}, {})", build.version, build.commit, build.type));
  app.footer(
      "ends with 0: done; 1: failed; 2: wrong use, or a file that is not there; 3: this machine lacks something; "
      "130, 143, 129: stopped by Ctrl-C, SIGTERM or a closed terminal, with everything saved");
  add_commands(app);
  try {
    log::start("tritonforge");
    warn_of_unknown_variables();
    app.parse(argc, argv);
    return end_with(0);
  } catch (const CLI::RuntimeError& error) {  // a command's own exit code
    return end_with(error.get_exit_code());
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, argc, argv);
  } catch (const StoppedBySignal& stopped) {
    fmt::print(stderr, "tritonforge: {}\n", stopped.what());
    return stopped.exit_code();
  } catch (const Error& error) {
    fmt::print(stderr, "tritonforge: {}\n", error.what());
    return exit_code(error.kind());
  } catch (const fs::filesystem_error& error) {  // a folder that cannot be made, a file that cannot be removed
    fmt::print(stderr, "tritonforge: {}: {}\n", error.path1().string(), error.code().message());
    return exit_code(ErrorKind::kUnavailable);
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) return end_with(1);  // fmt's own word for it
    fmt::print(stderr, "tritonforge: internal error: {}\n", error.what());
    return 1;
  }
}

bool names_command(int argc, char** argv, AddCommands add_commands) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") return true;
  CLI::App app;
  add_commands(app);
  const CLI::App* at = &app;
  for (int i = 1; i < argc && takes_subcommand(*at); ++i) {
    at = subcommand_of(*at, argv[i]);
    if (at == nullptr) return false;
  }
  return !takes_subcommand(*at);
}

}  // namespace tritonforge::cli
