#pragma once
// A router's server in front of mock workers.
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "router/server.h"
#include "unit/router/mock_worker.h"

namespace tritonforge::router {

struct Fleet {
  explicit Fleet(int n, const std::string& policy = "least_loaded", const net::ServerOptions& http = {},
                 const std::string& worker_api_key = "", RouterOptions options = {}) {
    options.worker_api_key = worker_api_key;
    options.policy = policy;
    options.health_interval_s = 0;  // tests call check_health()
    for (int i = 0; i < n; ++i) {
      workers.push_back(std::make_unique<MockWorker>());
      options.workers.push_back(workers.back()->url());
    }
    router = std::make_unique<Router>(options);
    server = std::make_unique<RouterServer>(*router, http);
    server->start();
    router->check_health();
  }
  void restart(int i) {  // on its port, and nobody tells the router
    const std::string url = (*this)[i].url();
    workers[static_cast<size_t>(i)] = std::make_unique<MockWorker>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
  int port() const { return std::stoi(server->url().substr(server->url().rfind(':') + 1)); }
  MockWorker& operator[](int i) { return *workers[static_cast<size_t>(i)]; }
  WorkerState state(int i) { return router->registry().all()[static_cast<size_t>(i)]->state(); }
  std::future<Result<net::Response>> generate(Json body = {{"text", "x"}}) {
    return std::async(std::launch::async, [this, body] { return client.post(server->url() + "/generate", body); });
  }
  std::vector<std::unique_ptr<MockWorker>> workers;
  std::unique_ptr<Router> router;
  std::unique_ptr<RouterServer> server;
  net::HttpClient client;
};

inline void wait_for(std::atomic<int>& value, int at_least) {
  for (int seen = value; seen < at_least; seen = value) value.wait(seen);
}

}  // namespace tritonforge::router
