#pragma once
// The trajectories in the buffer of a run that has ended, as sources of training data see them.
#include <memory>

#include "base/filesystem.h"
#include "contract/rollout.h"
#include "contract/trajectory.h"
#include "dataset/sources/source.h"

namespace tritonforge::rollout {

// What was asked, said and answered in it, as text.
dataset::PastTrajectory past_trajectory(const GroupSpec& group, const Trajectory& trajectory);

// Those of RL: not what a bench or a validation asked, whose problems are held out, and not what a failure of ours
// ended. `path` is a run's folder or its buffer.sqlite. Throws kNotFound, kUnavailable (the run goes on), kCorrupt.
std::unique_ptr<dataset::PastTrajectories> open_past_trajectories(const fs::path& path);

}  // namespace tritonforge::rollout
