#pragma once
// The dashboard's server: the page, its JSON API and its events (docs/protocols.md, "Dashboard"), over the run folder
// that it follows while the run writes it.
#include <memory>
#include <string>

#include "dashboard/run_folder.h"
#include "net/http.h"

namespace tritonforge::dashboard {

class DashboardServer {
 public:
  DashboardServer(RunFolder& folder, net::ServerOptions options);  // from here on nobody else polls the folder
  ~DashboardServer();
  void start();
  void stop(double grace_s = 2);
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::dashboard
