#include "router/server.h"

#include "router/status.h"

namespace tritonforge::router {
namespace {

std::string url_argument(const net::Request& request) {
  const auto query = request.query.find("url");
  if (query != request.query.end()) return query->second;
  const Json body = request.json();
  if (!body.is_object())
    fail(ErrorKind::kUsage, "{} {}: expected ?url= or {{\"url\": ...}}", request.method, request.path);
  return require<std::string>(body, "url", request.method + " " + request.path);
}

}  // namespace

struct RouterServer::Impl {
  Impl(Router& router, net::ServerOptions options)
      : router(router),
        key(options.api_key.empty() ? ClientKey::kPassOn : ClientKey::kKeep),
        server(std::move(options)) {
    add_routes();
  }

  void add_routes();
  net::Response health() const;
  net::Response metrics();
  Router& router;
  const ClientKey key;
  net::HttpServer server;
};

net::Response RouterServer::Impl::health() const {
  const PeerCount count = count_peers(router.registry());
  if (count.all() == 0) return net::health_reply(count.colour(), "router", "no worker is registered");
  std::string detail = fmt::format("{} green, {} yellow, {} red workers", count.green, count.yellow, count.red);
  if (count.green == 0) {  // why, of one of them
    for (const auto& worker : router.registry().all()) {
      const std::string error = worker->status().last_error;
      if (error.empty()) continue;
      detail += fmt::format("; {}: {}", worker->url(), error);
      break;
    }
  }
  return net::health_reply(count.colour(), "router", detail);
}

net::Response RouterServer::Impl::metrics() {
  net::Metrics& out = router.metrics();
  std::map<std::string, double> up, outstanding, requests;  // of the workers that there are now
  for (const auto& worker : router.registry().all()) {
    const auto status = worker->status();
    up[fmt::format("worker_up{{worker=\"{}\"}}", worker->url())] = status.state != WorkerState::kRed;
    outstanding[fmt::format("outstanding_requests{{worker=\"{}\"}}", worker->url())] = static_cast<double>(
        status.outstanding_requests);
    for (const auto& [outcome, count] : status.outcomes) {
      requests[fmt::format("requests_total{{worker=\"{}\",status=\"{}\"}}", worker->url(),
                           outcome == 0 ? "failed" : std::to_string(outcome))] = static_cast<double>(count);
    }
  }
  out.set_all("worker_up", std::move(up));
  out.set_all("outstanding_requests", std::move(outstanding));
  out.set_all("requests_total", std::move(requests));
  out.set("waiting_requests", static_cast<double>(router.waiting()));
  return out.reply();
}

void RouterServer::Impl::add_routes() {
  server.route("GET", "/health", [this](const net::Request&) { return health(); });
  server.route("GET", "/metrics", [this](const net::Request&) { return metrics(); });
  server.route("POST", "/add_worker", [this](const net::Request& request) {
    const auto worker = router.registry().add(url_argument(request));
    router.check(worker);
    return net::Response::json({{"success", true}, {"url", worker->url()}});
  });
  server.route("POST", "/drain_worker", [this](const net::Request& request) {
    const auto worker = router.registry().drain(url_argument(request));
    return net::Response::json({{"success", true}, {"url", worker->url()}, {"load", worker->load()}});
  });
  server.route("POST", "/remove_worker", [this](const net::Request& request) {
    const std::string url = url_argument(request);
    router.registry().remove(url);
    return net::Response::json({{"success", true}, {"url", url}});
  });
  server.route("POST", "/weight_barrier", [this](const net::Request& request) {
    const auto version = require<int64_t>(request.json(), "min_weight_version", "POST /weight_barrier");
    if (version < 0) fail(ErrorKind::kUsage, "POST /weight_barrier: min_weight_version {} is negative", version);
    router.require_weights(version);
    return net::Response::json({{"success", true}, {"min_weight_version", version}});
  });
  server.route("GET", "/weight_barrier", [this](const net::Request&) {
    return net::Response::json({{"min_weight_version", router.required_weights()}});
  });
  server.route("GET", "/list_workers", [this](const net::Request&) {
    Json urls = Json::array();
    for (const auto& worker : router.registry().all()) urls.push_back(worker->url());
    return net::Response::json({{"urls", urls}});
  });
  server.route("GET", "/workers", [this](const net::Request&) {
    Json workers = Json::array();
    for (const auto& worker : router.registry().all()) workers.push_back(describe(*worker));
    return net::Response::json({{"workers", workers}});
  });
  for (const auto* path :
       {"/update_weights_from_disk", "/update_weights_from_tensor", "/update_weights_from_distributed",
        "/init_weights_update_group", "/destroy_weights_update_group", "/pause_generation", "/continue_generation",
        "/flush_cache", "/abort_request", "/release_memory_occupation", "/resume_memory_occupation"}) {
    server.route_async("*", path, [this](net::Request& request, net::ResponderPtr reply) {
      router.fan_out(request, std::move(reply), key);
    });
  }
  server.route_async("*", "/*", [this](net::Request& request, net::ResponderPtr reply) {
    router.forward(request, std::move(reply), key);
  });
}

RouterServer::RouterServer(Router& router, net::ServerOptions options)
    : impl_(std::make_unique<Impl>(router, std::move(options))) {}
RouterServer::~RouterServer() = default;
void RouterServer::start() { impl_->server.start(); }
void RouterServer::stop(double grace_s) { impl_->server.stop(grace_s); }
std::string RouterServer::url() const { return impl_->server.url(); }

}  // namespace tritonforge::router
