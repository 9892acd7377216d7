#pragma once
// `tritonforge serve trainer`: the endpoints of docs/protocols.md over one training thread.
#include <memory>
#include <string>

#include "net/http.h"
#include "train/service.h"

namespace tritonforge::train {

class TrainerServer {
 public:
  // Steps, saves and publications run one after another on a thread of the server's own, which alone calls the service
  // between start() and the end of stop(); a full queue answers 503.
  TrainerServer(TrainerService& service, net::ServerOptions options);
  ~TrainerServer();
  void start();
  // Ends the running step and answers waiting requests with 503.
  void stop(double grace_s = 5);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For a process that trains on the CPU: freed memory is kept, since a step asks for the same large blocks again and
// each would otherwise be mapped and zeroed by the kernel anew.
void keep_freed_memory();

}  // namespace tritonforge::train
