#include "router/policy.h"

#include "base/error.h"

namespace tritonforge::router {

std::vector<std::string> policy_names() { return {"least_loaded", "round_robin"}; }

std::unique_ptr<Policy> make_policy(const std::string& name) {
  if (name == "least_loaded") return make_session_sticky(make_least_loaded());
  if (name == "round_robin") return make_session_sticky(make_round_robin());
  fail(ErrorKind::kUsage, "unknown policy '{}'{}", name, nearest_hint(name, policy_names()));
}

}  // namespace tritonforge::router
