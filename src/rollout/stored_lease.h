#pragma once
// A lease as the database holds it, and its three forms: figures and transcripts for the orchestrator, training
// sequences for the trainer, and the whole as JSON for people and other programs. Each is a function of the stored
// bytes alone.
#include <cstdint>
#include <string>
#include <vector>

#include "contract/lease.h"
#include "contract/sequence_batch.h"

namespace tritonforge::rollout {

struct StoredGroup {
  std::string id, problem_id;
  std::string reason;               // why it teaches nothing; "" where it does
  std::vector<std::string> bodies;  // JSON text of its trajectories, in sample order
};

struct StoredLease {
  std::string id;
  std::vector<StoredGroup> groups;
};

// `samples`: how many of a group's trajectories come along as transcripts; those that hold a turn come first.
Lease lease_of(const StoredLease& stored, int64_t samples);
SequenceBatch batch_of(const StoredLease& stored);
// {"lease_id", "groups": [{"group_id", "problem_id", "trajectories"}], "dropped": [{"group_id", "reason"}]}. The
// trajectories are the stored bytes: the text of a lease never changes.
std::string text_of(const StoredLease& stored);

}  // namespace tritonforge::rollout
