#pragma once
// A lease as the database holds it, and its three forms: figures and transcripts for the orchestrator, training
// sequences for the trainer, and the whole as JSON for people and other programs. Each is a function of the stored
// bytes alone, and is made when nobody waits for the database any more.
#include <cstdint>
#include <string>
#include <vector>

#include "contract/lease.h"
#include "contract/sequence_batch.h"
#include "rollout/stored_trajectory.h"

namespace tritonforge::rollout {

struct StoredLease {
  std::string id;
  std::vector<StoredGroup> groups;
};

// `samples`: how many of a group's trajectories come along as transcripts; those that hold a turn come first.
Lease lease_of(const StoredLease& stored, int64_t samples);
SequenceBatch batch_of(const StoredLease& stored);
// {"lease_id", "groups": [{"group_id", "problem_id", "replayed", "trajectories"}], "dropped": [{"group_id",
// "reason"}]}. It follows from the stored bytes: the text of a lease never changes.
std::string text_of(const StoredLease& stored);

}  // namespace tritonforge::rollout
