#pragma once
// The router's server: one address for many engines (docs/protocols.md, "Router"). A superset of sglang-router's API;
// stock SGLang servers can stand behind it.
#include <memory>
#include <string>
#include <vector>

#include "net/http.h"
#include "router/registry.h"

namespace tritonforge::router {

struct RouterOptions {
  net::ServerOptions server;
  std::vector<std::string> workers;
  std::string policy = "least_loaded";
  double health_interval_s = 5, health_timeout_s = 5;
  int failures_until_red = 3;
  std::string worker_api_key;
  double fan_out_timeout_s = 600;
};

class Router {
 public:
  explicit Router(RouterOptions options);  // throws kUsage for a bad URL, policy or number; what HttpServer throws
  ~Router();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;
  Registry& registry();
  void check_health();  // one round of health checks, now

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::router
