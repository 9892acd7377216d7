#pragma once
// `tritonforge serve trainer`: the endpoints of docs/protocols.md over one training thread.
#include <memory>
#include <string>

#include "train/config.h"

namespace tritonforge::train {

struct ServerOptions {
  TrainConfig config;
  bool resume = false;         // go on from the newest checkpoint; without it a folder that holds one is refused
  bool share_device = false;   // hold the device's lock while a step computes
  std::string buffer_api_key;  // sent to the rollout buffer
  std::string host = "127.0.0.1";
  int port = 29400;
  std::string api_key;  // asked of clients
};

class TrainerServer {
 public:
  // Loads (or resumes), then listens. Steps, saves and publications run one after another; a full queue answers 503.
  explicit TrainerServer(ServerOptions options);
  ~TrainerServer();
  std::string url() const;
  // Ends the running step, answers waiting requests with 503, writes a checkpoint of what is not saved.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For a process that trains on the CPU: freed memory is kept, since a step asks for the same large blocks again and
// each would otherwise be mapped and zeroed by the kernel anew.
void keep_freed_memory();

}  // namespace tritonforge::train
