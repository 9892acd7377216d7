#pragma once
// A trajectory and a group as rows of the buffer's file (store_schema.cpp), and back. A trajectory is the transcript as
// JSON and its tokens in binary; what the group gave it when it was complete stands with the group.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "contract/trajectory.h"
#include "rollout/sqlite.h"

namespace tritonforge::rollout {

// Of each sample of a complete group, in their order: Trajectory::advantages and carries_loss.
struct GroupCredit {
  std::vector<std::vector<double>> advantages;
  std::vector<std::vector<bool>> carries_loss;
};
std::string text_of(const GroupCredit& credit);
// As earlier versions stored it, with the trajectories; nullopt where the group was not complete.
std::optional<GroupCredit> credit_of(const std::vector<Trajectory>& group);

// Correct in any turn, and not by a cheat.
bool is_correct(const Trajectory& trajectory);

// What a group's credit follows from: a row of its own, so that completing a group reads no transcript.
struct Outline {
  double reward = 0;
  bool correct = false, failed = false;
  std::vector<double> turn_returns;
  std::vector<bool> cut;  // of each turn: status truncated
};
Outline outline_of(const Trajectory& trajectory);
std::vector<Outline> stored_outlines(Database& database, const std::string& group_id);  // in the order of its samples

// What a group is worth, over those of its trajectories that no failure of ours ended; 0 where there are none:
// the variance of their rewards, E[R^2] - E[R]^2, and the share of them that is correct.
double reward_variance(const std::vector<Outline>& group);
double pass_rate(const std::vector<Outline>& group);

// What can be made of a trajectory before the database's turn: most of the time that writing one takes.
struct TrajectoryRow {
  explicit TrajectoryRow(const Trajectory& trajectory);
  std::string id, group_id, body, record;
  Outline outline;
  double speedup = 0;  // the best of a correct turn; 0: none was timed
  int64_t turns = 0;
};
// False where the sample is there already. `seq` names the row's number, else it is the next.
bool insert(Database& database, const TrajectoryRow& row, int64_t sample, double created,
            std::optional<int64_t> seq = std::nullopt);

// Read in one moment of the database, decoded when nobody waits for it any more.
struct StoredTrajectory {
  std::string body, record;  // record "": its tokens are gone (retention)
};
struct StoredGroup {
  std::string id, problem_id;
  std::string reason;                                     // why it teaches nothing; "" where it does
  std::string credit;                                     // text_of(GroupCredit); "{}": it is not complete
  std::vector<std::pair<size_t, StoredTrajectory>> rows;  // by sample
  bool replayed = false;                                  // it was trained on before
};
// Sample number `sample` of a group with that credit.
Trajectory trajectory_of(const StoredTrajectory& stored, const std::string& credit, size_t sample);
StoredGroup stored_group(Database& database, const std::string& group_id);  // throws kNotFound
std::vector<Trajectory> trajectories_of(const StoredGroup& group);
std::string text_of(const StoredGroup& group);  // of those, a JSON list

}  // namespace tritonforge::rollout
