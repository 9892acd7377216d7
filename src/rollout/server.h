#pragma once
// The buffer's HTTP surface: /v2/* and the legacy endpoints (docs/protocols.md, "Rollout buffer").
#include <memory>

#include "net/http.h"
#include "rollout/service.h"

namespace tritonforge::rollout {

class BufferServer {
 public:
  // Answers for the service until ~BufferServer, which joins the service's threads.
  BufferServer(RolloutService& service, net::ServerOptions options);
  ~BufferServer();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::rollout
