#pragma once
// The trainer's HTTP bodies <-> plain structs (docs/protocols.md, trainer).
#include <string>
#include <vector>

#include "base/json.h"
#include "contract/trajectory.h"
#include "train/step_metrics.h"

namespace tritonforge::train {

struct StepRequest {
  StepKind kind = StepKind::kSft;
  int64_t step = 0;
  std::string lease_id, buffer;          // rl
  std::vector<TrainSequence> sequences;  // sft
};
// Throws kUsage naming the field.
StepRequest step_request_from_json(const Json& body);

// The reply to a lease: what its groups hold, and the sequences that follow.
struct LeasedBatch {
  std::vector<TrainSequence> sequences;
  int64_t groups = 0, trajectories = 0;
  int64_t zero_variance_groups = 0;  // every advantage is 0: nothing is learned from them
  double reward_mean = 0;
};
LeasedBatch leased_batch_from_json(const Json& body);

// {"step", "kind", every value}; a value that is not finite is null.
Json to_json(const StepMetrics& metrics);

}  // namespace tritonforge::train
