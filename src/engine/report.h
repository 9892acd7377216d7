#pragma once
// What an engine tells over HTTP about its state: /health, /get_server_info and /metrics.
#include "base/json.h"
#include "engine/info.h"
#include "net/http.h"

namespace tritonforge::engine {

net::Response health_report(const EngineStats& stats, bool healthy, bool closing);
Json server_report(const EngineInfo& info, const EngineStats& stats);
net::Response metrics_report(const EngineStats& stats);

}  // namespace tritonforge::engine
