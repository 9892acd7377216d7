#pragma once
// A name for a server's process, by which who started it tells it from another that has its port (health_reply).
#include <string>
#include <string_view>

#include "net/http.h"

namespace tritonforge::net {

inline constexpr const char* kInstanceVariable = "TRITONFORGE_INSTANCE";  // of the process's environment

std::string fresh_instance(std::string_view role);
// Whether the reply to GET /health is a healthy one of that process.
bool is_healthy(const Result<Response>& reply, const std::string& instance);

}  // namespace tritonforge::net
