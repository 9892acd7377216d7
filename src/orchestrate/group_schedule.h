#pragma once
// Which groups of trajectories are under way during an RL run, and which of them a step trains on. Groups are numbered
// through the run; those of [(s - 1) P, s P) are step s's own, with P = rl.prompts_per_step.
//
// A step s is late by n where it trains on a group of its own only in step s + n. With over-sampling more groups are
// under way than a step needs; it takes those that are complete first, and one long answer holds up nobody. No group is
// left out, since that would teach the model to answer briefly: it may be `late` steps late, then it is waited for. A
// group submitted in step s may have tokens of that step's weights, so that both count as staleness:
// ahead + late = rl.max_staleness, with ahead = ceil(rl.over_sampling - 1).
#include <cstdint>

namespace tritonforge::orchestrate {

struct GroupRange {
  int64_t begin = 0, end = 0;  // [begin, end)
  bool operator==(const GroupRange&) const = default;
};

class GroupSchedule {
 public:
  // over_sampling: groups under way as a multiple of a step's, at least 1; 0: each step trains on its own groups, and
  // those of max_staleness steps more are under way. Throws kUsage where max_staleness leaves no step for lateness.
  GroupSchedule(int64_t steps, int64_t per_step, int64_t max_staleness, double over_sampling);
  bool over_samples() const { return late_ > 0; }
  // Groups that are submitted before step `step` (from 1) is trained: [0, submitted(step)).
  int64_t submitted(int64_t step) const;
  // Groups that a run which goes on with `step` submits, if the buffer does not know them: any before were trained on.
  GroupRange unfinished(int64_t step) const;
  // With over-sampling: the groups that `step` waits for, where no step before had them.
  GroupRange due(int64_t step) const;

 private:
  int64_t steps_, per_step_, ahead_ /* groups */, late_ = 0 /* steps */;
};

}  // namespace tritonforge::orchestrate
