#pragma once
// The dashboard's server: the page, its JSON API and its events (docs/protocols.md, "Dashboard").
#include <memory>
#include <string>

#include "base/filesystem.h"
#include "net/http.h"

namespace tritonforge::dashboard {

struct DashboardOptions {
  fs::path run;
  net::ServerOptions server;
};

class Dashboard {
 public:
  explicit Dashboard(DashboardOptions options);  // throws kNotFound for the folder; what HttpServer throws
  ~Dashboard();
  void start();
  void stop();
  std::string url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The run's page with its data inside, as one file.
std::string report_html(const fs::path& run, size_t trajectories = 100);

}  // namespace tritonforge::dashboard
