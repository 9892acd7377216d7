#pragma once
// The buffer's HTTP surface: /v2/* and the original's endpoints (docs/protocols.md, "Rollout buffer").
#include <memory>

#include "net/http.h"
#include "rollout/service.h"

namespace tritonforge::rollout {

class BufferServer {
 public:
  BufferServer(net::ServerOptions http, ServiceOptions service, std::unique_ptr<ChatCodec> codec);
  ~BufferServer();
  void start();
  std::string url() const;
  // False: turns were still under way after `grace_s`; nothing durable is lost, a restart makes them again.
  bool stop(double grace_s);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::rollout
