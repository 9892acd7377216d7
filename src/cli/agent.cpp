#include "orchestrate/agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/commands.h"
#include "orchestrate/node_cache.h"

namespace tritonforge::cli {

void add_agent_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "agent", "starts the process that its standard input describes, on a host of a run (run --launcher)");
  command->group("");  // what launchers start, not people
  const auto* free = command->add_flag("--free-port")->description("prints a port that nobody listens on here");
  const auto* sweep = command->add_flag("--sweep")->description("removes what launchers brought here and nobody uses");
  command->callback([free, sweep] {
    if (*free) return fmt::print("{}\n", free_port());
    if (*sweep) {
      orchestrate::sweep_bundles(orchestrate::own_bundle());
      return orchestrate::sweep_environments(orchestrate::own_environment());
    }
    if (const int code = orchestrate::run_agent(STDIN_FILENO); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace tritonforge::cli
