#pragma once
// The training sequences of one step on their way to the trainer: from the buffer's `GET /v2/leases/{id}` for RL, in
// the body of `POST /step` for SFT. Between our own processes they travel in binary; the buffer's JSON of a lease says
// the same to people and other programs, and both give the same sequences.
//
// The binary form, version 1; every number is little-endian:
//   header    "TFSQ", u32 version, i64 step, f64 groups, trajectories, zero_variance_groups, reward_mean, u64 sequences
//   sequence  u32 tokens n, u32 bytes of its id, u32 flags (1: sampled), f64 temperature, the id, i32 tokens[n],
//             u8 loss_mask[n]; where sampled, of the m tokens with loss: f32 log_probs[m], f32 advantages[m],
//             i64 weight_versions[m]
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/trajectory.h"

namespace tritonforge {

inline constexpr char kSequencesContentType[] = "application/x-tritonforge-sequences";

// What a lease's groups hold, those apart that it holds again (contract/lease.h, Replay). Numbers of things are doubles
// as every figure of a step is.
struct BatchFigures {
  double groups = 0, trajectories = 0;
  double zero_variance_groups = 0;  // teach nothing (contract/lease.h, DroppedGroup): none of their sequences is here
  double reward_mean = 0;           // over trajectories that no failure of ours ended

  bool operator==(const BatchFigures&) const = default;
};

struct SequenceBatch {
  int64_t step = 0;  // SFT: the step that the sequences are for; 0 in a lease
  std::vector<TrainSequence> sequences;
  BatchFigures figures;  // of a lease

  bool operator==(const SequenceBatch&) const = default;
};

struct TrainGroup {
  std::vector<Trajectory> trajectories;
  bool teaches = true;    // false: its sequences would cost a forward pass and a share of the mean, and change nothing
  bool replayed = false;  // trained on before: only its sequences count
};

// The batch of complete groups. Throws kUsage where a trajectory has no advantages yet.
SequenceBatch batch_of_groups(const std::vector<TrainGroup>& groups);
// The same from the JSON of a lease: {"groups": [{"group_id", "replayed", "trajectories": [...]}], "dropped":
// [{"group_id"}]}. Throws kUsage naming the field.
SequenceBatch batch_of_lease_json(const Json& lease);

// A sequence that was not sampled (every log-prob and advantage 0, every version -1) carries none of the three.
// Throws kUsage where a token id needs more than 31 bits, the arrays of a sequence differ in length, or a token without
// loss has a log-prob, advantage or version.
std::string to_binary(const SequenceBatch& batch);
// Throws kUsage naming the sequence: another version, a length beyond the bytes there are, a loss mask that is neither
// 0 nor 1, a negative token, a temperature that is none, bytes left over. What it allocates is bounded by what it was
// given.
SequenceBatch batch_from_binary(std::string_view bytes);

}  // namespace tritonforge
