// libs: tf_train
// The bodies that the trainer takes from outside: POST /step, and the buffer's lease.
#include <string>
#include <string_view>
#include <vector>

#include "train/wire.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool lease : {false, true}) {
    try {
      const Json body = parse_json(text, "fuzz");
      if (lease) {
        train::leased_batch_from_json(body);
      } else {
        for (const TrainSequence& s : train::step_request_from_json(body).sequences) {
          if (s.old_log_probs.size() != s.tokens.size()) return 1;
        }
      }
    } catch (const Error&) {  // refused: what is wanted of most inputs
    }
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {R"({"kind": "sft", "step": 3, "sequences": [{"tokens": [1, 2, 3], "loss_mask": [0, 1, true], "id": "x"}]})",
          R"({"kind": "rl", "step": 12, "lease_id": "step-12", "buffer": "http://127.0.0.1:8889"})",
          R"({"lease_id": "a", "groups": [{"group_id": "g", "problem_id": "p", "trajectories": []}], "dropped": []})",
          R"({"groups": [{"trajectories": [{"id": "t", "problem_id": "p", "group_id": "g", "temperature": 1.0,
              "reward": 0.5, "turn_returns": [0.5], "advantages": [1.0], "turns": [{"prompt_tokens": [1, 2],
              "response_tokens": [3], "log_probs": [-0.5], "weight_versions": [0], "text": "x", "code": "",
              "reward": 0.5, "status": "completed"}]}]}]})"};
}
