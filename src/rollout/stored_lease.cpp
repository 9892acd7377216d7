#include "rollout/stored_lease.h"

#include <algorithm>

namespace tritonforge::rollout {

Lease lease_of(const StoredLease& stored, int64_t samples) {
  Lease lease;
  lease.id = stored.id;
  for (const StoredGroup& group : stored.groups) {
    LeasedGroup& leased = lease.groups.emplace_back();
    leased.group_id = group.id;
    leased.problem_id = group.problem_id;
    leased.replayed = group.replayed;
    if (!group.reason.empty()) lease.dropped.push_back({group.id, group.reason});
    leased.samples = trajectories_of(group);
    for (const Trajectory& trajectory : leased.samples) {
      if (!group.replayed) lease.figures.add(trajectory);
      leased.figures.add(trajectory);
    }
    std::stable_partition(leased.samples.begin(), leased.samples.end(),
                          [](const Trajectory& trajectory) { return !trajectory.turns.empty(); });
    if (static_cast<int64_t>(leased.samples.size()) > samples) leased.samples.resize(static_cast<size_t>(samples));
  }
  return lease;
}

SequenceBatch batch_of(const StoredLease& stored) {
  std::vector<TrainGroup> groups;
  for (const StoredGroup& group : stored.groups)
    groups.push_back({trajectories_of(group), group.reason.empty(), group.replayed});
  return batch_of_groups(groups);
}

std::string text_of(const StoredLease& stored) {
  std::string groups;
  Json dropped = Json::array();
  for (const StoredGroup& group : stored.groups) {
    if (!group.reason.empty()) dropped.push_back({{"group_id", group.id}, {"reason", group.reason}});
    groups += fmt::format("{}{{\"group_id\":{},\"problem_id\":{},\"replayed\":{},\"trajectories\":{}}}",
                          groups.empty() ? "" : ",", Json(group.id).dump(), Json(group.problem_id).dump(),
                          group.replayed, text_of(group));
  }
  return fmt::format("{{\"lease_id\":{},\"groups\":[{}],\"dropped\":{}}}", Json(stored.id).dump(), groups,
                     dropped.dump());
}

}  // namespace tritonforge::rollout
