#pragma once
// The routes by which weights come to an engine: those of a run, and SGLang's, by which any trainer can send them. They
// are blocking handlers. docs/protocols.md, section Engine.
#include "engine/engine.h"
#include "net/http.h"

namespace tritonforge::engine {

void add_weight_routes(net::HttpServer& server, Engine& engine);

}  // namespace tritonforge::engine
