#pragma once
// Trajectories as columns, one row a turn, for whoever reads many of them: Arrow, Parquet, pandas.
#include <vector>

#include "contract/trajectory.h"
#include "dataset/parquet.h"

namespace tritonforge::rollout {

// Columns: trajectory_id, group_id, problem_id, turn, prompt_tokens, response_tokens, log_probs, weight_versions
// (lists), text, code, feedback, status, reward, return, advantage (null: the group is not complete), carries_loss (the
// same), temperature, compiled, correct, fault, speedup (null: not timed), generate_s, evaluate_s.
dataset::Table turn_table(const std::vector<Trajectory>& trajectories);

}  // namespace tritonforge::rollout
