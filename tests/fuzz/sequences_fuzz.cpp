// libs: tf_contract
// Training sequences in binary are read or refused with kUsage, and what was read is written and read again as the
// same.
#include <string>
#include <string_view>
#include <vector>

#include "contract/sequence_batch.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    const SequenceBatch batch = batch_from_binary({reinterpret_cast<const char*>(data), size});
    for (const TrainSequence& s : batch.sequences) {
      const size_t n = s.tokens.size();
      if (s.loss_mask.size() != n || s.old_log_probs.size() != n || s.advantages.size() != n ||
          s.weight_versions.size() != n) {
        return 1;
      }
    }
    const std::string written = to_binary(batch);
    if (to_binary(batch_from_binary(written)) != written) return 1;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const TrainSequence sampled{{1, 2, 3}, {0, 1, 1}, {0, -0.5f, -0.25f}, {0, 1, 1}, {-1, 4, 4}, "t1", 0.7};
  const TrainSequence taught{{4, 5}, {0, 1}, {0, 0}, {0, 0}, {-1, -1}, "", 1.0};
  return {to_binary({.sequences = {sampled, taught}, .figures = {1, 2, 0, 0.5}}),
          to_binary({.step = 3, .sequences = {taught}}), to_binary({})};
}
