#pragma once
// A port in use, a key that is missing, a bad certificate: said before a server spends minutes on its model.
#include "net/http.h"

namespace tritonforge::cli {

// Throws what a server of these options would throw.
inline void check_can_listen(const net::ServerOptions& options) { const net::HttpServer probe(options); }

}  // namespace tritonforge::cli
