#pragma once
// One address for many engines (docs/protocols.md, "Router"), without the HTTP server in front: which engines there
// are, how they do, and the way of a request to one or all of them. Thread-safe.
#include <memory>

#include "net/http.h"
#include "router/options.h"
#include "router/policy.h"
#include "router/proxy.h"
#include "router/registry.h"

namespace tritonforge::router {

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
