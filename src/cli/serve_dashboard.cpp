#include <memory>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "dashboard/server.h"

namespace tritonforge::cli {

void add_serve_dashboard_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("dashboard", "the page of a run: states, curves, results, trajectories");
  struct Options {
    fs::path run;
    net::ServerOptions server{.port = 8080};
  };
  auto options = std::make_shared<Options>();
  command->add_option("--run", options->run, "the run's folder")->required();
  command->add_option("--host", options->server.host, "address to listen on")->capture_default_str();
  command->add_option("--port", options->server.port, "port to listen on")->capture_default_str();
  command->add_option("--api-key", options->server.api_key,
                      "key that clients must send (required for any host but loopback)");
  command->footer("example: tritonforge serve dashboard --run runs/quickstart --port 8080");
  command->callback([options] {
    log::start("dashboard");
    SignalWaiter signals;
    dashboard::RunFolder folder(options->run);
    dashboard::DashboardServer server(folder, options->server);
    server.start();
    log::info("dashboard of {} on {}", options->run.string(), server.url());
    signals.block();
    server.stop();
  });
}

}  // namespace tritonforge::cli
