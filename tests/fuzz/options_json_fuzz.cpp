// libs: tf_contract
// The options of POST /v2/rollouts are read or refused with kUsage naming the place, and what was read survives being
// written and read again.
#include <string>
#include <vector>

#include "base/json.h"
#include "contract/rollout.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    const Json body = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    const Json written = to_json(rollout_options_from_json(body, "fuzz"));
    if (to_json(rollout_options_from_json(written, "fuzz")) != written) return 1;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage || std::string(error.what()).find("fuzz") == std::string::npos) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {to_json(RolloutOptions{}).dump(),
          R"({"max_turns": 2, "gamma": 0.5, "credit": "per_turn", "sampling": {"top_k": -1, "max_new_tokens": 64}})",
          R"({"evaluate": {"mode": null, "timeout_s": 1e-1}, "stop_speedup": -1, "enable_thinking": false})"};
}
