#pragma once
// What the tests of peers.h share.
#include <gtest/gtest.h>

#include "base/filesystem.h"
#include "orchestrate/peers.h"

namespace tritonforge::orchestrate {

// A role's process answers /health, and nothing else. What the calls meet is a server of the test, so that a death and
// what the role says afterwards can be told apart.
class PeersTest : public testing::Test {
 protected:
  PeersTest() : logs("peers"), supervisor(logs.path()), http(net::ServerOptions{.worker_threads = 4}) {}
  ~PeersTest() override { supervisor.stop_all(); }

  Role role(const std::string& name);
  void route(const std::string& method, const std::string& path, net::Handler handler) {
    http.route(method, path, std::move(handler));
  }
  TemporaryFolder logs;
  Supervisor supervisor;
  net::HttpServer http;
};

}  // namespace tritonforge::orchestrate
