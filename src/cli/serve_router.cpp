#include <fmt/format.h>

#include <memory>

#include "base/log.h"
#include "base/process.h"
#include "cli/commands.h"
#include "router/policy.h"
#include "router/server.h"

namespace tritonforge::cli {

void add_serve_router_command(CLI::App& serve) {
  auto* command = serve.add_subcommand("router",
                                       "one address for many engines: load balancing, retries, health checks");
  struct Options : router::RouterOptions {
    net::ServerOptions server{.port = 30000};
  };
  auto options = std::make_shared<Options>();
  command->add_option("--host", options->server.host, "address to listen on")->capture_default_str();
  command->add_option("--port", options->server.port, "port to listen on")->capture_default_str();
  command->add_option("--api-key", options->server.api_key,
                      "key that clients must send (required for any host but loopback)");
  command->add_option("--worker", options->workers, "URL of an engine; repeat for more (also POST /add_worker?url=)");
  command->add_option("--worker-api-key", options->worker_api_key, "key that is sent to the engines");
  command->add_option("--policy", options->policy, fmt::format("{}", fmt::join(router::policy_names(), " | ")))
      ->capture_default_str();
  command->add_option("--health-interval", options->health_interval_s, "seconds between health checks")
      ->capture_default_str();
  command->add_option("--health-timeout", options->health_timeout_s, "seconds until a health check counts as failed")
      ->capture_default_str();
  command
      ->add_option("--failures-until-red", options->failures_until_red,
                   "failures in a row until a worker gets no traffic")
      ->capture_default_str();
  command->footer("example: tritonforge serve router --worker http://127.0.0.1:30001 --worker http://127.0.0.1:30002");
  command->callback([options] {
    log::start("router");
    SignalWaiter signals;
    router::Router router(*options);
    router::RouterServer server(router, options->server);
    server.start();
    log::info("router listens on {} with {} workers, policy {}", server.url(), options->workers.size(),
              options->policy);
    signals.block();
    log::info("router stops");
    server.stop();
  });
}

}  // namespace tritonforge::cli
