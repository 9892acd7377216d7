#include "orchestrate/agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/commands.h"

namespace tritonforge::cli {

void add_agent_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "agent", "starts the process that its standard input describes, on a host of a run (run --launcher)");
  command->group("");  // what launchers start, not people
  const auto* free = command->add_flag("--free-port")->description("prints a port that nobody listens on here");
  command->callback([free] {
    if (*free) return fmt::print("{}\n", free_port());
    if (const int code = orchestrate::run_agent(STDIN_FILENO); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace tritonforge::cli
