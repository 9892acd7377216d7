// libs: tf_contract
// What the trainer and the orchestrator read as JSON: POST /step, the buffer's lease in both of its forms.
#include <string>
#include <string_view>
#include <vector>

#include "contract/lease.h"
#include "contract/step.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = [&](auto reader) {
    try {
      reader(parse_json(text, "fuzz"));
    } catch (const Error&) {  // refused: what is wanted of most inputs
    }
  };
  bool whole = true;
  read([&](const Json& body) {
    for (const TrainSequence& s : step_request_from_json(body).sequences)
      whole &= s.old_log_probs.size() == s.tokens.size();
  });
  read([](const Json& body) { batch_of_lease_json(body); });
  read([](const Json& body) { lease_from_json(body); });
  read([](const Json& body) { step_result_from_json(body); });
  return whole ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  return {R"({"kind": "sft", "step": 3, "sequences": [{"tokens": [1, 2, 3], "loss_mask": [0, 1, true], "id": "x"}]})",
          R"({"kind": "rl", "step": 12, "lease_id": "step-12", "buffer": "http://127.0.0.1:8889"})",
          R"({"lease_id": "a", "groups": [{"group_id": "g", "problem_id": "p", "trajectories": []}], "dropped": []})",
          to_json(Lease{.id = "l", .groups = {{"g", "p", {}, {}}}, .dropped = {{"g", "all_failed"}}}).dump(),
          R"({"step": 3, "kind": "rl", "loss": null, "clip_fraction": 0.5, "groups": 2.0, "checkpoint": "/c",
          "repeated": true})",
          R"({"groups": [{"trajectories": [{"id": "t", "problem_id": "p", "group_id": "g", "temperature": 1.0,
          "reward": 0.5, "turn_returns": [0.5], "advantages": [1.0], "turns": [{"prompt_tokens": [1, 2],
          "response_tokens": [3], "log_probs": [-0.5], "weight_versions": [0], "text": "x", "code": "",
          "reward": 0.5, "status": "completed"}]}]}]})"};
}
