#pragma once
// Role `front` of serve evaluator: one address for many machines. Evaluations go to the least busy of the servers that
// replay and time, kernels that are to be lowered to those that compile; what a lost one had is asked of another. It
// keeps nothing of a request, needs no Python and no GPU.
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/url.h"
#include "net/http.h"
#include "router/router.h"

namespace tritonforge::evaluate {

struct PeerOptions {
  std::vector<std::string> compile_servers, perf_servers;
  std::string peer_api_key;
  double peer_health_interval_s = 2;

  template <typename V>
  void describe(V& v) {
    v("compile_servers", compile_servers, commas(), in_form(server_url),
      "roles front and perf: URLs of servers of role compile; a perf server without any compiles by itself");
    v("perf_servers", perf_servers, commas(), in_form(server_url), "role front: URLs of servers of role perf (or all)");
    v("peer_health_interval_s", peer_health_interval_s, above(0), "seconds between looks at their health");
  }
};

// Least loaded, with retries and looks at their health.
router::RouterOptions router_of(const std::vector<std::string>& urls, const PeerOptions& peers);

class FrontServer {
 public:
  // Throws kUsage for a bad URL, or where no perf server is named.
  FrontServer(const PeerOptions& peers, net::ServerOptions http);
  ~FrontServer();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::evaluate
