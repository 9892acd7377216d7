#include <algorithm>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "router/server.h"

namespace tritonforge::cli {
namespace {

struct RouterFlags {
  router::RouterOptions router;
  net::ServerOptions http{.port = 30000};
  net::PeerKey engines;
  int io_threads = 0;

  template <typename V>
  void describe(V& v) {
    v.part(http);
    v.part(router);
    v.part(engines);
    v("io_threads", io_threads, in(0, 256),
      "threads that carry requests, each those of its own connections; 0 = one for every core, at most 8");
  }
};

void serve_router(RouterFlags flags) {
  log::start("router");
  flags.http.read_secrets();
  flags.router.worker_api_key = flags.engines.read(flags.http.api_key);
  flags.http.io_threads = flags.io_threads > 0
                              ? flags.io_threads
                              : static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  SignalWaiter signals;
  router::Router router(flags.router);
  router::RouterServer server(router, flags.http);
  server.start();
  log::info("router listens on {} with {} workers, policy {}", server.url(), flags.router.workers.size(),
            flags.router.policy);
  signals.block();
  log::info("router stops");
  server.stop();
}

}  // namespace

void add_serve_router_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("router",
                                       "one address for many engines: load balancing, retries, health checks");
  auto flags = std::make_shared<RouterFlags>();
  add_flags(*command, *flags);
  command->footer("example: tritonforge serve router --worker http://127.0.0.1:30001 --worker http://127.0.0.1:30002");
  command->callback([flags] { serve_router(*flags); });
}

}  // namespace tritonforge::cli
