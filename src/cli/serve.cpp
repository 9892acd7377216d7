#include "cli/commands.h"

namespace tritonforge::cli {

CLI::App& add_serve_command(CLI::App& app) {
  auto* serve = app.add_subcommand("serve", "runs one server of the system");
  serve->require_subcommand(1);
  serve->footer("example: tritonforge serve engine --model ~/models/Qwen3-0.6B --port 30001");
  add_serve_router_command(*serve);
  add_serve_evaluator_command(*serve);
  add_serve_dashboard_command(*serve);
  add_serve_buffer_command(*serve);
  add_serve_generator_command(*serve);
  return *serve;
}

}  // namespace tritonforge::cli
