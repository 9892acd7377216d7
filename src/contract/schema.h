#pragma once
// What the contract's JSON looks like, made from the lists that write it (contract/field_lists.h).
#include "base/json.h"

namespace tritonforge {

// JSON Schema, draft 2020-12. A transcript is a trajectory without the arrays of tokens, as trajectories.jsonl has it.
Json verdict_schema();
Json trajectory_schema();
Json transcript_schema();

}  // namespace tritonforge
