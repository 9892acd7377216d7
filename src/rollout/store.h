#pragma once
// The buffer's memory: groups, their trajectories, leases and commits in one SQLite file (docs/protocols.md, "Rollout
// buffer"). Every call that changes something is one durable transaction: when it returned, a kill -9 or a power cut
// takes nothing back. Thread-safe: one writes at a time, and reading, which may be of many megabytes, waits for no
// writer and holds none up (it sees what was committed at one moment).
//
// A group runs until all of its samples are written; the last one completes it, with advantages, in the same
// transaction. Complete groups are leased whole, in the order in which they were accepted; a lease is committed
// (trained and checkpointed: its tokens are given again only where a later lease replays its group), released, or
// discarded. What a lease holds never changes, byte for byte.
//
// Nothing grows without bound but the ledger of leases and commits, about 110 bytes a step and 16 a group: each commit
// takes away what its Retention does not keep, oldest first (docs/protocols.md, "What the buffer keeps").
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/filesystem.h"
#include "contract/lease.h"
#include "contract/rollout.h"
#include "contract/trajectory.h"
#include "rollout/generator.h"
#include "rollout/options.h"
#include "rollout/shared_commits.h"
#include "rollout/sqlite.h"
#include "rollout/stored_lease.h"

namespace tritonforge::rollout {

class Store : public TurnKeeper {
 public:
  // Throws kUnavailable / kCorrupt, and kUnsupported where another version wrote the file.
  explicit Store(const fs::path& path, Retention retention = {});

  struct Accepted {
    std::vector<std::string> accepted, known;
    std::vector<GroupSpec> groups;  // those accepted
  };
  // All of them or none. An id that is there already is left as it is.
  Accepted add_groups(const std::vector<GroupSpec>& groups);

  struct Unfinished {
    GroupSpec group;
    std::vector<int64_t> missing;  // sample numbers not yet written
  };
  std::vector<Unfinished> unfinished();

  // Turns of trajectories that are not written yet, each with its answer or its verdict; gone with the trajectory.
  // Behind one that could not be kept they are of no use, and are not given.
  std::vector<KeptTurn> kept_turns(const std::string& group_id, int64_t sample) override;
  void keep_turn(const std::string& group_id, int64_t sample, int64_t index, const KeptTurn& turn) override;
  // Writes sample number `sample`; a repeat changes nothing. True where this completed the group. Throws kNotFound
  // where there is no such group, kUsage where it has not so many samples.
  bool write_trajectory(const Trajectory& trajectory, int64_t sample);

  struct LeaseAnswer {
    std::optional<StoredLease> lease;  // nullopt: not there yet
    std::string missing;               // what is not there
  };
  // The same lease id gives the same groups, also after the commit: whoever drives the loop reads its figures again.
  // Throws kUsage, kNotFound (unknown group, or one that retention took away), kConflict (a group is with another
  // lease, the lease holds other groups than those that are named).
  LeaseAnswer lease(const LeaseRequest& request);
  StoredLease leased(const std::string& lease_id);  // to be trained on; throws kNotFound, kConflict (it is committed)
  void commit_lease(const std::string& lease_id, int64_t step);  // repeats are fine
  void release_lease(const std::string& lease_id);
  // Forgets the lease, its groups and their trajectories: they may be asked for anew. Repeats are fine.
  void discard_lease(const std::string& lease_id);

  struct Counts {
    std::map<std::string, int64_t> groups;  // running, complete, leased, committed
    int64_t trajectories = 0, failed = 0, turns = 0, correct = 0, leases = 0, commits = 0, bytes = 0;
    int64_t stored = 0;                              // trajectories that retention has left
    double mean_reward = 0, recent_mean_reward = 0;  // of all that did not fail; of those of the last 256
  };
  Counts counts();
  GroupProgress progress(const std::string& group_prefix);  // of the groups whose ids begin so

  // What was written of each problem, those with the youngest trajectory first.
  struct ProblemFigures {
    std::string id;
    int64_t trajectories = 0, failed = 0, correct = 0;
    double mean_reward = 0;   // of those that no failure of ours ended
    double best_speedup = 0;  // of correct turns that were timed; 0: there is none
    double last = 0;          // when the youngest was written, Unix seconds
  };
  std::vector<ProblemFigures> problems(int64_t limit);

  struct Row {
    Trajectory trajectory;
    std::string group_id, reason;
    double created = 0;
    RolloutOptions options;
    std::string problem_source;
  };
  // The newest, or the oldest, at most so many and in that order; with `after`, of those written after that trajectory.
  // Throws kNotFound where `after` is unknown.
  std::vector<Row> rows(int64_t limit, const std::string& after, bool oldest_first = false);
  std::string group_text(const std::string& group_id);  // throws kNotFound

  // --- The legacy endpoints (rollout/legacy.h) ---
  struct LegacyGroup {
    GroupSpec group;
    std::vector<Trajectory> trajectories;  // of an own group
    bool external = false;
    std::vector<std::string> bodies;  // items that were written from outside
    std::vector<int64_t> items;       // their row numbers
    size_t size() const { return external ? bodies.size() : trajectories.size(); }
  };
  // Appends an item from outside; false where its uid is there already.
  bool write_item(const std::string& uid, const std::string& instance_id, double reward, const std::string& body);
  struct LegacyRules {
    int64_t group_size = 8;
    double timeout_s = 300,
           min_timeout_ratio = 0.7;  // an external group nobody wrote to for so long is used from so full on
  };
  // Complete groups, oldest first, until they hold `min_items` (-1: all). Nothing is taken.
  std::vector<LegacyGroup> legacy_groups(int64_t min_items, const LegacyRules& rules, double now);
  // Takes them for good, under the id that it returns ("read-1", "read-2", ...; none is left out): they are not given
  // again except by leased(id) for own groups, until Retention::steps readings came after it.
  std::string take_legacy(const std::vector<LegacyGroup>& groups);
  struct LegacyCounts {
    int64_t waiting = 0, written = 0, read = 0;  // items
  };
  LegacyCounts legacy_counts();
  std::string setting(const std::string& key, const std::string& fallback);
  void set_setting(const std::string& key, const std::string& value);

 private:
  struct Grant {
    std::vector<std::string> group_ids, replayed;
    std::string missing = "";  // why it cannot be given
    bool known = false;        // it was given before
  };
  static Grant find(Database& database, const LeaseRequest& request);
  static Grant any_groups(Database& database, const LeaseRequest& request);
  // Of the groups that it names; "": all are complete.
  static std::string not_there(Database& database, const LeaseRequest& request);
  // These run within a transaction of commits_.
  Grant grant(const LeaseRequest& request);
  std::vector<std::string> replayable(const LeaseRequest& request);
  void commit(const std::string& lease_id, int64_t step);
  void forget_old();
  void forget_read(int64_t reading);
  bool forget_tokens_of(const std::string& lease_id);
  void complete_group(const std::string& group_id);
  StoredLease read_lease(const std::string& lease_id, const Grant& granted);
  int64_t number(const std::string& setting);
  void set_number(const std::string& setting, int64_t value);

  Retention retention_;
  Database database_;  // within commits_ alone
  SharedCommits commits_;
  std::mutex reading_;
  Database reader_;  // under reading_
};

}  // namespace tritonforge::rollout
