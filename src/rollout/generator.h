#pragma once
// One trajectory from its opening to its end:
//   tokens -> router -> code -> evaluator -> reward -> feedback -> tokens ...
// single_turn is max_turns 1. It ends at max_turns, at a turn that is correct and has stop_speedup, at a correct turn
// that nobody timed, where the context has no room for another turn, and at a turn that failed.
//
// A truncated turn is judged by what it holds (a complete block counts; otherwise there is no code) and does not end
// the trajectory while the context has room: the end-of-turn token is appended unsampled, and the feedback says what
// was cut. A turn of ours that failed (engine or evaluator down for good, the problem itself broken) has status failed,
// the reason in verdict.diagnostics, and carries no loss.
//
// Everything random follows from (group seed, sample, turn): a trajectory that is run again is asked for with the same
// seeds.
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "contract/rollout.h"
#include "contract/trajectory.h"
#include "rollout/codec.h"
#include "rollout/dialogue.h"
#include "rollout/peers.h"
#include "rollout/reward.h"

namespace tritonforge::rollout {

// What is going on, for /metrics and /v2/status.
struct Activity {
  std::atomic<int64_t> generating{0}, evaluating{0}, turns{0}, failed_turns{0}, sampled_tokens{0};
};

// Where the turns of unfinished trajectories are kept (RolloutOptions::keep_turns). A turn is kept twice: with its
// answer, and with its verdict. Thread-safe.
struct KeptTurn {
  Turn turn;
  bool judged = false;
};
class TurnKeeper {
 public:
  virtual ~TurnKeeper() = default;
  virtual std::vector<KeptTurn> kept_turns(const std::string& group_id, int64_t sample) = 0;  // in their order
  virtual void keep_turn(const std::string& group_id, int64_t sample, int64_t index, const KeptTurn& turn) = 0;
};

std::string trajectory_id(const std::string& group_id, int64_t sample);

class Generator {
 public:
  Generator(const Peers& peers, const ChatCodec& codec, Gate& evaluations, Activity& activity,
            TurnKeeper* keeper = nullptr)
      : peers_(peers), codec_(codec), evaluations_(evaluations), activity_(activity), keeper_(keeper) {}
  // nullopt: a stop was asked for before its end; nothing of it counts.
  std::optional<Trajectory> run(const GroupSpec& group, int64_t sample, std::stop_token stop) const;

 private:
  // Both false: stopped in between.
  bool answer_turn(const Dialogue& dialogue, Turn& turn, const std::string& id, uint64_t seed,
                   std::stop_token stop) const;
  bool judge_turn(const GroupSpec& group, Turn& turn, const std::string& id, const Reward& reward,
                  std::stop_token stop) const;
  void keep(const GroupSpec& group, int64_t sample, int64_t index, const Turn& turn, bool judged) const;
  const Peers& peers_;
  const ChatCodec& codec_;
  Gate& evaluations_;
  Activity& activity_;
  TurnKeeper* keeper_;
};

// Fills turn_returns and reward by the group's credit rule.
void credit_trajectory(Trajectory& trajectory, const RolloutOptions& options);
// A trajectory that says why there is none.
Trajectory failed_trajectory(const GroupSpec& group, int64_t sample, Fault fault, const std::string& reason);
// Whether the trajectory ends with this turn for what the turn achieved (see above).
bool reached_goal(const Turn& turn, const RolloutOptions& options);

}  // namespace tritonforge::rollout
