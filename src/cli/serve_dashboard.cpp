#include <memory>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "dashboard/server.h"

namespace tritonforge::cli {
namespace {

struct DashboardFlags {
  fs::path run, runs;
  net::ServerOptions http{.port = 8080};

  template <typename V>
  void describe(V& v) {
    v("run", run, "the run's folder");
    v("runs", runs, "in its place, a folder of runs: an index with search, and comparisons");
    v.part(http);
  }
};

void serve_dashboard(DashboardFlags flags) {
  if (flags.run.empty() == flags.runs.empty())
    fail(ErrorKind::kUsage, "serve dashboard: name a run (--run) or a folder of runs (--runs)");
  log::start("dashboard");
  flags.http.read_secrets();
  SignalWaiter signals;
  dashboard::RunList runs(flags.run.empty() ? flags.runs : flags.run, /*many=*/flags.run.empty());
  dashboard::DashboardServer server(runs, flags.http);
  server.start();
  log::info("dashboard of {} on {}", runs.path().string(), server.url());
  signals.block();
  server.stop();
}

}  // namespace

void add_serve_dashboard_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("dashboard", "the page of a run, or of a folder of runs");
  auto flags = std::make_shared<DashboardFlags>();
  add_flags(*command, *flags);
  command->footer(
      "examples: tritonforge serve dashboard --run runs/quickstart-seed1 --port 8080\n"
      "          tritonforge serve dashboard --runs runs");
  command->callback([flags] { serve_dashboard(*flags); });
}

}  // namespace tritonforge::cli
