#pragma once
// The engine's HTTP API: docs/protocols.md, section Engine. A request that waits for tokens holds no thread: the
// engine's thread hands outputs to one worker, which turns them into JSON and completes the replies.
#include <memory>
#include <string>

#include "engine/engine.h"
#include "net/http.h"

namespace tritonforge::engine {

class EngineServer {
 public:
  // Throws what HttpServer throws (port in use, key missing), kUnsupported for a chat template that is not known.
  EngineServer(Engine& engine, net::ServerOptions options);
  ~EngineServer();
  void start();
  std::string url() const;
  // No new requests; what runs is aborted and answered with what it has.
  void stop(double grace_s = 5);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::engine
