#pragma once
// The dashboard's server: the page, its JSON API and its events (docs/protocols.md, "Dashboard"), over the run
// folders that it follows while runs write them.
#include <memory>
#include <string>

#include "dashboard/run_list.h"
#include "net/http.h"

namespace tritonforge::dashboard {

class DashboardServer {
 public:
  DashboardServer(RunList& runs, net::ServerOptions options);  // from here on nobody else uses the list
  ~DashboardServer();
  void start();
  void stop(double grace_s = 2);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::dashboard
