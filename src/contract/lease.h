#pragma once
// What the buffer answers to a lease: figures, and transcripts for people. The tokens of the same lease go to the
// trainer alone, as a SequenceBatch.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"
#include "contract/trajectory.h"

namespace tritonforge {

// Which of several groups come first; among equals the older one.
//   age        the oldest            newest   the youngest
//   variance   the largest variance of the rewards of a group's trajectories, E[R^2] - E[R]^2: what a comparison within
//              the group learns from
//   pass_rate  the largest p (1 - p), p the share of correct trajectories: neither solved nor hopeless
enum class LeaseOrder { kAge, kNewest, kVariance, kPassRate };
constexpr std::array<std::string_view, 4> names_of(LeaseOrder) { return {"age", "newest", "variance", "pass_rate"}; }

// Groups of earlier leases that a lease holds again, for another update from the same trajectories. Their tokens keep
// the log-probabilities that they were sampled with, by which the trainer weighs them (train/losses.h, tis). Those that
// were replayed least come first, then by `order`. Fewer where there are not so many.
struct Replay {
  int64_t groups = 0;
  int64_t leases = 4;  // of the last so many leases whose ids begin with `of`
  LeaseOrder order = LeaseOrder::kVariance;
  std::string of;
};

// POST /v2/groups/lease. The same lease_id is answered with the same groups until it is committed.
struct LeaseRequest {
  std::string lease_id;
  int64_t count = 1;
  std::vector<std::string> group_ids;   // exactly these, in this order; empty: any `count`
  std::string of;                       // any `count` of the groups whose ids begin with it
  std::vector<std::string> at_least;    // of any `count`: those of these that no other lease has, waited for
  int64_t samples = 1;                  // trajectories of each group that come along as transcripts, at most
  double timeout_s = 60;                // how long the buffer waits for the groups to be complete
  LeaseOrder order = LeaseOrder::kAge;  // of any `count`
  Replay replay;
};
Json to_json(const LeaseRequest& request);
LeaseRequest lease_request_from_json(const Json& body);  // throws kUsage naming the field

// GET it for the tokens; with a verb POST it: commit, release, discard. An id may hold whatever a problem's id holds,
// slashes among it.
std::string lease_path(std::string_view lease_id, std::string_view verb = {});

// Sums over trajectories; one that holds no turn counts nowhere. What our own failures ended counts as failed, and with
// its tokens and times; it is in no sum that says how good the model is.
struct RolloutFigures {
  int64_t trajectories = 0;
  int64_t failed = 0;             // of them, see ended_by_failure
  int64_t compiled = 0;           // whose first turn compiled
  int64_t passed_first_turn = 0;  // whose first turn is correct
  int64_t passed = 0;             // with any correct turn
  int64_t turns = 0, response_tokens = 0;
  double reward = 0;
  double generate_s = 0, evaluate_s = 0;  // of their turns' requests, which overlap

  void add(const Trajectory& trajectory);
  int64_t judged() const { return trajectories - failed; }
  double per_trajectory(double sum) const {
    return judged() > 0 ? sum / static_cast<double>(judged()) : 0;
  }  // of the judged
  bool operator==(const RolloutFigures&) const = default;
};

struct LeasedGroup {
  std::string group_id, problem_id;
  bool replayed = false;  // trained on before: in no figures of the lease
  RolloutFigures figures;
  std::vector<Trajectory> samples;  // transcripts: without token arrays
};

struct DroppedGroup {  // it teaches nothing, and is not trained on
  std::string group_id;
  std::string reason;  // zero_variance | too_few | all_failed
};

struct Lease {
  std::string id;
  RolloutFigures figures;  // of all groups that are not replayed
  std::vector<LeasedGroup> groups;
  std::vector<DroppedGroup> dropped;  // of `groups`
};
Json to_json(const Lease& lease);
Lease lease_from_json(const Json& json);  // throws kUsage naming the field

// GET /v2/progress: what there is of some groups, finished or not.
struct GroupProgress {
  int64_t trajectories = 0;         // finished ones
  int64_t correct = 0, failed = 0;  // of them
  int64_t turns = 0;                // that have a verdict, of unfinished ones too
};
Json to_json(const GroupProgress& progress);
GroupProgress group_progress_from_json(const Json& json);  // throws kUsage naming the field

}  // namespace tritonforge
