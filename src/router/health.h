#pragma once
// Asks every worker's /health in the background, all at once, and tells the worker what came.
#include <functional>
#include <stop_token>
#include <thread>

#include "net/async_client.h"
#include "router/registry.h"

namespace tritonforge::router {

struct HealthOptions {
  double interval_s = 5;  // 0: no rounds but those asked for
  double timeout_s = 5, silence_timeout_s = 60;
  std::string api_key;  // the workers'
};

class HealthChecker {
 public:
  HealthChecker(Registry& registry, net::AsyncClient& client, HealthOptions options);
  ~HealthChecker();
  // One round; returns when every worker has answered or timed out, or stop is requested.
  void check_all(std::stop_token stop = {});
  void check(const WorkerPtr& worker);  // one worker now, without waiting

 private:
  void loop(std::stop_token stop);
  std::shared_ptr<net::AsyncCall> ask(const WorkerPtr& worker, std::function<void()> done);
  Registry& registry_;
  net::AsyncClient& client_;
  const HealthOptions options_;
  std::jthread thread_;
};

}  // namespace tritonforge::router
