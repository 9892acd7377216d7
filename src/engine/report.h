#pragma once
// What an engine tells over HTTP about its state: /health, /get_server_info and /metrics.
#include <string>

#include "base/json.h"
#include "engine/info.h"
#include "net/http.h"

namespace tritonforge::engine {

// `fault`: Engine::fault().
net::Response health_report(const EngineStats& stats, const std::string& fault, bool closing);
Json server_report(const EngineInfo& info, const EngineStats& stats);
net::Response metrics_report(const EngineStats& stats);

// A line about the load for each second that the engine spent in steps.
class LoadReport {
 public:
  // Empty until a second of steps has passed since the last line.
  std::string line(const EngineStats& now);

 private:
  double seconds_ = 0;
  int64_t generated_ = 0, prompt_ = 0;
};

}  // namespace tritonforge::engine
