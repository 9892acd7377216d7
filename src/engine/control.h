#pragma once
// The routes that steer an engine: pause, abort, cache, memory. They wait for the engine's thread, so they are
// blocking handlers. docs/protocols.md, section Engine.
#include "engine/engine.h"
#include "net/http.h"

namespace tritonforge::engine {

void add_control_routes(net::HttpServer& server, Engine& engine);

}  // namespace tritonforge::engine
