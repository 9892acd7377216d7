// libs: tf_rollout
// The stored tokens of a trajectory are read or refused with kUsage, and what was read is written and read again as the
// same.
#include <string>
#include <string_view>
#include <vector>

#include "rollout/token_record.h"

using namespace tritonforge;

namespace {

Trajectory transcript(size_t turns) {
  Trajectory trajectory;
  trajectory.turns.resize(turns);
  return trajectory;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t turns = data[0] % 4;
  Trajectory read = transcript(turns);
  try {
    rollout::add_tokens(read, {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kUsage ? 0 : 1;
  }
  Trajectory again = transcript(turns);
  rollout::add_tokens(again, rollout::token_record(read));
  return to_json(again) == to_json(read) ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  Trajectory trajectory = transcript(2);
  Turn& first = trajectory.turns[0];
  first.prompt_tokens = {1, 2, 3};
  first.response_tokens = {4, 5};
  first.log_probs = {-0.5f, -0.25f};
  first.weight_versions = {3, 4};
  trajectory.turns[1] = first;
  trajectory.turns[1].prompt_tokens = {1, 2, 3, 4, 5, 6};
  return {"\x02" + rollout::token_record(trajectory), std::string(1, '\0') + rollout::token_record(transcript(0)),
          "\x01" + rollout::token_record(transcript(1))};
}
