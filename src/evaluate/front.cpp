#include "evaluate/front.h"

#include <algorithm>

#include "router/status.h"

namespace tritonforge::evaluate {
router::RouterOptions router_of(const std::vector<std::string>& urls, const PeerOptions& peers) {
  return {.workers = urls,
          .health_interval_s = peers.peer_health_interval_s,
          .worker_api_key = peers.peer_api_key,
          .fan_out_timeout_s = 10};
}

namespace {

// The worse of two.
net::Colour both(net::Colour a, net::Colour b) { return std::max(a, b); }

}  // namespace

struct FrontServer::Impl {
  Impl(const PeerOptions& peers, net::ServerOptions http)
      : key(http.api_key.empty() ? router::ClientKey::kPassOn : router::ClientKey::kKeep),
        compiles(!peers.compile_servers.empty()),
        compile(router_of(peers.compile_servers, peers)),
        perf(router_of(peers.perf_servers, peers)),
        server(std::move(http)) {
    if (peers.perf_servers.empty())
      fail(ErrorKind::kUsage, "evaluator: role front needs --perf-servers URL,... to send evaluations to");
  }

  void pass(router::Router& to, bool all, net::Request& request, net::ResponderPtr reply) const {
    if (all) to.fan_out(request, std::move(reply), key);
    else to.forward(request, std::move(reply), key);
  }

  net::Response health() const {
    const auto replays = router::count_peers(perf.registry()), lowers = router::count_peers(compile.registry());
    const net::Colour colour = compiles ? both(replays.colour(), lowers.colour()) : replays.colour();
    const auto told = [](const router::PeerCount& count) {
      return fmt::format("{} of {} up", count.green, count.all());
    };
    return net::health_reply(colour, "evaluator",
                             fmt::format("front; perf servers: {}; compile servers: {}", told(replays), told(lowers)),
                             {{"role", "front"},
                              {"perf_servers", router::describe(perf.registry())},
                              {"compile_servers", router::describe(compile.registry())}});
  }

  net::Response metrics_text() {
    for (const router::Router* one : {&compile, &perf}) {
      for (const auto& peer : one->registry().all()) {
        const auto status = peer->status();
        const std::string labels = fmt::format("{{peer=\"{}\",role=\"{}\"}}", peer->url(),
                                               one == &perf ? "perf" : "compile");
        metrics.set("peer_up" + labels, status.state != router::WorkerState::kRed);
        metrics.set("peer_outstanding_requests" + labels, static_cast<double>(status.outstanding_requests));
        metrics.set("peer_served_total" + labels, static_cast<double>(status.served));
        metrics.set("peer_failed_total" + labels, static_cast<double>(status.failed));
      }
    }
    return metrics.reply();
  }

  const router::ClientKey key;
  const bool compiles;
  net::Metrics metrics{"evaluator",
                       {{"peer_up", "1 where the peer gets traffic, 0 where it is red"},
                        {"peer_outstanding_requests", "requests under way at the peer"},
                        {"peer_served_total", "requests that the peer answered"},
                        {"peer_failed_total", "requests and looks at its health that it did not answer"}}};
  router::Router compile, perf;
  net::HttpServer server;  // before the routers, its requests end
};

FrontServer::FrontServer(const PeerOptions& peers, net::ServerOptions http)
    : impl_(std::make_unique<Impl>(peers, std::move(http))) {
  Impl& impl = *impl_;
  struct Passed {
    const char *method, *path;
    router::Router& to;
    bool all;
  };
  for (const Passed& one : {Passed{"POST", "/v2/evaluations", impl.perf, false},
                            {"POST", "/v2/problems", impl.perf, false},
                            {"POST", "/eval", impl.perf, false},
                            {"GET", "/backend_info", impl.perf, false},
                            {"GET", "/gpu_status", impl.perf, true},
                            {"GET", "/status", impl.perf, true},
                            {"GET", "/fault_statistics", impl.perf, true},
                            {"POST", "/v2/lowerings", impl.compile, false}}) {
    impl.server.route_async(one.method, one.path,
                            [&impl, &to = one.to, all = one.all](net::Request& request, net::ResponderPtr reply) {
                              impl.pass(to, all, request, std::move(reply));
                            });
  }
  impl.server.route_async("GET", "/health",
                          [&impl](const net::Request&, net::ResponderPtr reply) { reply->send(impl.health()); });
  impl.server.route_async("GET", "/metrics",
                          [&impl](const net::Request&, net::ResponderPtr reply) { reply->send(impl.metrics_text()); });
}
FrontServer::~FrontServer() = default;
void FrontServer::start() { impl_->server.start(); }
void FrontServer::stop(double grace_s) { impl_->server.stop(grace_s); }
std::string FrontServer::url() const { return impl_->server.url(); }

}  // namespace tritonforge::evaluate
