#include "router/router.h"

#include "router/health.h"
#include "router/policy.h"
#include "router/proxy.h"

namespace tritonforge::router {

struct Router::Impl {
  explicit Impl(RouterOptions given)
      : options(std::move(given)),
        registry({.failures = options.failures_until_red, .open_s = options.breaker_open_s}),
        policy(make_policy(options.policy)),
        admission(options.admission),
        proxy(registry, *policy, admission, client, metrics,
              {.worker_api_key = options.worker_api_key, .fan_out_timeout_s = options.fan_out_timeout_s}) {
    for (const auto& url : options.workers) registry.add(url);
    checker = std::make_unique<HealthChecker>(registry, client,
                                              HealthOptions{.interval_s = options.health_interval_s,
                                                            .timeout_s = options.health_timeout_s,
                                                            .silence_timeout_s = options.silence_timeout_s,
                                                            .api_key = options.worker_api_key});
  }

  const RouterOptions options;
  Registry registry;
  std::unique_ptr<Policy> policy;
  Admission admission;
  net::Metrics metrics{"router",
                       {{"requests_total", "requests passed to a worker, by worker and status (failed: no reply)"},
                        {"retries_total", "requests that were passed to another worker after a failure"},
                        {"worker_up", "1 where the worker gets traffic, 0 where it is red"},
                        {"outstanding_requests", "requests under way at the worker"},
                        {"refused_total", "requests that went to no worker: bucket empty, queue full, deadline passed"},
                        {"waiting_requests", "requests that wait for their turn"}}};
  Proxy proxy;
  net::AsyncClient client;  // after the proxy: its callbacks use it
  std::unique_ptr<HealthChecker> checker;
};

Router::Router(RouterOptions options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(std::move(options));
}

Router::~Router() { impl_->admission.close(); }  // or the client would be given new work while it ends

void Router::forward(net::Request& request, net::ResponderPtr reply, ClientKey key) {
  impl_->proxy.forward(request, std::move(reply), key);
}
void Router::fan_out(net::Request& request, net::ResponderPtr reply, ClientKey key) {
  impl_->proxy.fan_out(request, std::move(reply), key);
}
void Router::require_weights(int64_t version) { impl_->proxy.require_weights(version); }
int64_t Router::required_weights() const { return impl_->proxy.required_weights(); }
Registry& Router::registry() { return impl_->registry; }
const Registry& Router::registry() const { return impl_->registry; }
void Router::check(const WorkerPtr& worker) { impl_->checker->check(worker); }
void Router::check_health() { impl_->checker->check_all(); }
size_t Router::waiting() const { return impl_->admission.waiting(); }
net::Metrics& Router::metrics() { return impl_->metrics; }

}  // namespace tritonforge::router
