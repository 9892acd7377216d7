#pragma once
// One address for many engines (docs/protocols.md, "Router"), without the HTTP server in front: which engines there
// are, how they do, and the way of a request to one or all of them. Thread-safe.
#include <memory>
#include <string>
#include <vector>

#include "base/url.h"
#include "net/http.h"
#include "router/admission.h"
#include "router/policy.h"
#include "router/proxy.h"
#include "router/registry.h"

namespace tritonforge::router {

struct RouterOptions {
  std::vector<std::string> workers;
  std::string policy = "least_loaded";
  double health_interval_s = 5, health_timeout_s = 5, silence_timeout_s = 60;
  int failures_until_red = 3;
  double breaker_open_s = 1;
  AdmissionOptions admission;
  std::string worker_api_key;
  double fan_out_timeout_s = 600;

  template <typename V>
  void describe(V& v) {
    v("workers", workers, spelled("worker"), in_form(server_url), "URL of an engine (also POST /add_worker?url=)");
    v("policy", policy, one_of(policy_names()), "which engine takes a request");
    v("health_interval_s", health_interval_s, at_least(0),
      "seconds between health checks; 0: none, requests alone tell");
    v("health_timeout_s", health_timeout_s, above(0), "seconds until a health check counts as failed");
    v("silence_timeout_s", silence_timeout_s, above(0),
      "seconds of failed health checks, with no answer and no piece of one meanwhile, after which what an engine was "
      "asked is asked of another");
    v("failures_until_red", failures_until_red, at_least(1), "failures in a row until an engine gets no traffic");
    v("breaker_open_s", breaker_open_s, above(0),
      "seconds without a request to an engine that failed as many in a row; doubles up to 60 while it goes on");
    v.part(admission);
    v("fan_out_timeout_s", fan_out_timeout_s, above(0), "seconds for a request that goes to every engine");
  }
};

class Router {
 public:
  // Asks the workers for their health from here on. Throws kUsage for a bad URL, policy or number.
  explicit Router(RouterOptions options);
  ~Router();

  // To one worker, and to every worker (router/proxy.h).
  void forward(net::Request& request, net::ResponderPtr reply, ClientKey key = ClientKey::kPassOn);
  void fan_out(net::Request& request, net::ResponderPtr reply, ClientKey key = ClientKey::kPassOn);
  void require_weights(int64_t version);  // the version barrier (router/proxy.h)
  int64_t required_weights() const;
  Registry& registry();
  const Registry& registry() const;
  void check(const WorkerPtr& worker);  // its health, now, without waiting
  void check_health();                  // one round over all workers; returns when all have answered or timed out
  size_t waiting() const;               // requests that wait for their turn (router/admission.h)
  net::Metrics& metrics();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::router
