#pragma once
// The router's HTTP face: a superset of sglang-router's API; stock SGLang servers can stand behind it.
#include <memory>
#include <string>

#include "net/http.h"
#include "router/router.h"

namespace tritonforge::router {

class RouterServer {
 public:
  RouterServer(Router& router, net::ServerOptions options);
  ~RouterServer();
  void start();
  void stop(double grace_s = 5);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::router
