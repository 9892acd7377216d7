#include <memory>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "dashboard/server.h"

namespace tritonforge::cli {
namespace {

struct DashboardFlags {
  fs::path run;
  net::ServerOptions http{.port = 8080};

  template <typename V>
  void describe(V& v) {
    v("run", run, required(), "the run's folder");
    v.part(http);
  }
};

void serve_dashboard(const DashboardFlags& flags) {
  log::start("dashboard");
  SignalWaiter signals;
  dashboard::RunFolder folder(flags.run);
  dashboard::DashboardServer server(folder, flags.http);
  server.start();
  log::info("dashboard of {} on {}", flags.run.string(), server.url());
  signals.block();
  server.stop();
}

}  // namespace

void add_serve_dashboard_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("dashboard", "the page of a run: states, curves, results, trajectories");
  auto flags = std::make_shared<DashboardFlags>();
  add_flags(*command, *flags);
  command->footer("example: tritonforge serve dashboard --run runs/quickstart --port 8080");
  command->callback([flags] { serve_dashboard(*flags); });
}

}  // namespace tritonforge::cli
