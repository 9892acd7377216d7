#include "router/router.h"

#include <optional>

#include "router/health.h"
#include "router/policy.h"
#include "router/proxy.h"

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

Json describe(const Worker& worker) {
  const auto status = worker.status();
  return {{"url", worker.url()},
          {"state", name_of(status.state)},
          {"load", status.outstanding_requests},
          {"outstanding_tokens", status.outstanding_tokens},
          {"consecutive_failures", status.consecutive_failures},
          {"served", status.served},
          {"failed", status.failed},
          {"last_error", status.last_error},
          {"seconds_since_seen", status.seconds_since_seen}};
}

}  // namespace

struct Router::Impl {
  explicit Impl(RouterOptions given)
      : options(std::move(given)),
        registry(options.failures_until_red),
        policy(make_policy(options.policy)),
        server(options.server) {}

  void add_routes();
  net::Response health() const;
  net::Response metrics_text();
  ProxyOptions proxy_options() const {
    ProxyOptions result;
    result.worker_api_key = options.worker_api_key;
    result.forward_authorization = options.server.api_key.empty();
    result.fan_out_timeout_s = options.fan_out_timeout_s;
    return result;
  }

  const RouterOptions options;
  Registry registry;
  std::unique_ptr<Policy> policy;
  net::Metrics metrics;
  net::HttpServer server;
  std::unique_ptr<net::AsyncClient> client = std::make_unique<net::AsyncClient>();
  Proxy proxy{registry, *policy, *client, metrics, proxy_options()};
  std::unique_ptr<HealthChecker> checker;
};

net::Response Router::Impl::health() const {
  int green = 0, yellow = 0, red = 0;
  for (const auto& worker : registry.all()) {
    const auto state = worker->state();
    ++(state == WorkerState::kGreen ? green : state == WorkerState::kYellow ? yellow : red);
  }
  const bool none = green + yellow + red == 0;
  const bool down = !none && green + yellow == 0;
  const std::string detail = none ? "no worker is registered"
                                  : fmt::format("{} green, {} yellow, {} red workers", green, yellow, red);
  return net::Response::json({{"status", down                       ? "red"
                                         : none || yellow + red > 0 ? "yellow"
                                                                    : "green"},
                              {"role", "router"},
                              {"detail", detail}},
                             down ? 503 : 200);
}

net::Response Router::Impl::metrics_text() {
  for (const auto& worker : registry.all()) {
    const auto status = worker->status();
    metrics.set(fmt::format("router_worker_up{{worker=\"{}\"}}", worker->url()), status.state != WorkerState::kRed);
    metrics.set(fmt::format("router_outstanding_requests{{worker=\"{}\"}}", worker->url()),
                static_cast<double>(status.outstanding_requests));
  }
  net::Response response = net::Response::text(metrics.text());
  response.content_type = "text/plain; version=0.0.4";
  return response;
}

void Router::Impl::add_routes() {
  server.route("GET", "/health", [this](const net::Request&) { return health(); });
  server.route("GET", "/metrics", [this](const net::Request&) { return metrics_text(); });
  server.route("POST", "/add_worker", [this](const net::Request& request) {
    const auto worker = registry.add(url_argument(request));
    checker->check(worker);
    return net::Response::json({{"success", true}, {"url", worker->url()}});
  });
  server.route("POST", "/remove_worker", [this](const net::Request& request) {
    const std::string url = url_argument(request);
    registry.remove(url);
    return net::Response::json({{"success", true}, {"url", url}});
  });
  server.route("GET", "/list_workers", [this](const net::Request&) {
    Json urls = Json::array();
    for (const auto& worker : registry.all()) urls.push_back(worker->url());
    return net::Response::json({{"urls", urls}});
  });
  server.route("GET", "/workers", [this](const net::Request&) {
    Json workers = Json::array();
    for (const auto& worker : registry.all()) workers.push_back(describe(*worker));
    return net::Response::json({{"workers", workers}});
  });
  for (const auto* path :
       {"/update_weights_from_disk", "/update_weights_from_tensor", "/update_weights_from_distributed",
        "/init_weights_update_group", "/pause_generation", "/continue_generation", "/flush_cache", "/abort_request",
        "/release_memory_occupation", "/resume_memory_occupation"}) {
    server.route_async("*", path, [this](const net::Request& request, net::ResponderPtr reply) {
      proxy.fan_out(request, std::move(reply));
    });
  }
  server.route_async("*", "/*", [this](const net::Request& request, net::ResponderPtr reply) {
    proxy.forward(request, std::move(reply));
  });
}

Router::Router(RouterOptions options) {
  if (options.failures_until_red < 1) fail(ErrorKind::kUsage, "--failures-until-red must be at least 1");
  if (!(options.health_interval_s > 0) || !(options.health_timeout_s > 0))
    fail(ErrorKind::kUsage, "health intervals must be positive");
  impl_ = std::make_unique<Impl>(std::move(options));
  for (const auto& url : impl_->options.workers) impl_->registry.add(url);
  impl_->add_routes();
}

Router::~Router() { stop(); }

void Router::start() {
  impl_->checker = std::make_unique<HealthChecker>(
      impl_->registry, *impl_->client,
      HealthOptions{impl_->options.health_interval_s, impl_->options.health_timeout_s, impl_->options.worker_api_key});
  impl_->server.start();
}

void Router::stop(double grace_s) {
  impl_->server.stop(grace_s);
  impl_->checker.reset();
  impl_->client.reset();
}

std::string Router::url() const { return impl_->server.url(); }
Registry& Router::registry() { return impl_->registry; }
void Router::check_health() { impl_->checker->check_all(); }

}  // namespace tritonforge::router
