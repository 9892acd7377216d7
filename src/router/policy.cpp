#include "router/policy.h"

#include "base/error.h"
#include "router/options.h"

namespace tritonforge::router {

std::vector<std::string> policy_names() {
  return {"least_loaded", "least_tokens", "power_of_two", "cache_aware", "consistent_hash", "round_robin"};
}

std::unique_ptr<Policy> make_policy(const std::string& name) {
  if (name == "least_loaded") return make_session_sticky(make_least_loaded());
  if (name == "least_tokens") return make_session_sticky(make_least_tokens());
  if (name == "power_of_two") return make_session_sticky(make_power_of_two());
  if (name == "cache_aware") return make_session_sticky(make_cache_aware());
  if (name == "consistent_hash") return make_consistent_hash();  // sessions are its keys
  if (name == "round_robin") return make_session_sticky(make_round_robin());
  fail(ErrorKind::kUsage, "unknown policy '{}'{}", name, nearest_hint(name, policy_names()));
}

}  // namespace tritonforge::router
