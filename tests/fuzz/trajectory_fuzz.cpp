// libs: tf_dataset
// A trajectory's JSON is read or refused with kUsage, and what was read makes training sequences that hold together.
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "contract/trajectory.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    auto trajectory = trajectory_from_json(parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"));
    trajectory.advantages.resize(trajectory.turns.size());
    for (const auto& sequence : to_train_sequences(trajectory)) {
      const size_t count = sequence.tokens.size();
      if (count == 0 || sequence.loss_mask.size() != count || sequence.old_log_probs.size() != count ||
          sequence.advantages.size() != count || sequence.weight_versions.size() != count ||
          sequence.loss_mask[0] != 0) {
        return 1;
      }
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  Trajectory trajectory;
  trajectory.id = "t";
  trajectory.problem_id = "p";
  trajectory.group_id = "g";
  Turn first;
  first.prompt_tokens = {1, 2, 3};
  first.response_tokens = {4, 5};
  first.log_probs = {-0.5f, -0.25f};
  first.weight_versions = {3, 3};
  first.status = TurnStatus::kCompleted;
  Turn second = first;
  second.prompt_tokens = {1, 2, 3, 4, 5, 6};
  trajectory.turns = {first, second};
  trajectory.advantages = {1, 0.5};
  trajectory.turn_returns = {0.3, 0.1};
  return {to_json(trajectory).dump()};
}
