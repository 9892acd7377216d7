#include "net/instance.h"

#include <unistd.h>

namespace tritonforge::net {

std::string fresh_instance(std::string_view role) {
  return fmt::format("{}/{}/{}", role, ::getpid(), Clock::now().time_since_epoch().count());
}

bool is_healthy(const Result<Response>& reply, const std::string& instance) {
  if (!reply.ok() || reply->status != 200) return false;
  const Json body = parse_json_or_discard(reply->body);
  return body.is_object() && body.contains("instance") && body["instance"] == instance;
}

}  // namespace tritonforge::net
