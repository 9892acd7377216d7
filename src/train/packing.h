#pragma once
// Sequences -> micro-batches of at most N tokens, with what the loss needs of every target as flat tensors.
#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "contract/trajectory.h"
#include "train/config.h"

namespace tritonforge::train {

// First-fit decreasing: longest first, each into the first bin with room. Returns indices of `lengths` per bin; a
// function of the lengths alone. At most 11/9 of the optimal number of bins (+ 6/9; Dosa 2007).
std::vector<std::vector<size_t>> pack_lengths(const std::vector<int64_t>& lengths, int64_t capacity);

// kUsage naming the sequence: arrays of different lengths, a token outside the vocabulary, a target at position 0, a
// non-finite log-prob or advantage, more tokens than a micro-batch or the model's positions hold. Returns the number of
// targets.
int64_t check_sequences(std::span<const TrainSequence> sequences, const TrainConfig& config, int64_t vocab_size,
                        int64_t max_position);

// Weight of the loss of every target of sequence i, so that the step's loss is the plain sum over all targets of
// weight * loss. It depends on the whole batch, never on how it is packed: gradient accumulation is exact.
std::vector<double> loss_weights(std::span<const TrainSequence> sequences, const LossConfig& loss);

// A' = (A - mean) / sqrt(max(variance, 1e-8)) over all targets of all sequences: REINFORCE++ (arXiv 2501.03262) as
// OpenRLHF has it.
void normalize_advantages(std::span<TrainSequence> sequences);

// False where every target's advantage is such that the loss does not depend on the model: zero, or negative where
// these do not count; with a KL or an entropy in the loss all sequences count.
bool has_gradient(const TrainSequence& sequence, const LossConfig& loss);

// The newest of `current_versions` less the version of the sequence's oldest target; 0 where either has none.
int64_t staleness_of(const TrainSequence& sequence, std::span<const int64_t> current_versions);

int64_t target_count(const TrainSequence& sequence);

// Tokens that must be run for a sequence's targets: those before its last target; 0 where it has none.
int64_t forward_length(const TrainSequence& sequence);

// The bins of each of `ranks` data-parallel ranks: as many for one as for another or one less, none above the capacity,
// their costs as even as handing out the most expensive first makes them. costs: of each sequence. One rank:
// pack_lengths(), as its micro-batches follow each other: their number counts, and not how even they are.
std::vector<std::vector<std::vector<size_t>>> share_out(const std::vector<int64_t>& lengths,
                                                        const std::vector<double>& costs, int64_t capacity,
                                                        int64_t ranks);

// Tokens [begin, end) of a sequence, side by side in a micro-batch.
struct Segment {
  size_t sequence;
  int64_t begin, end;
  int64_t parent = -1;      // the segment before it whose tokens it goes on from; -1: none, it begins its sequence
  bool has_targets = true;  // it ends its sequence; others have no target, and several go on from them
};
int64_t tokens_of(std::span<const Segment> segments);
// Each sequence for itself.
std::vector<Segment> whole_sequences(std::span<const TrainSequence> sequences, const std::vector<size_t>& indices);

// One forward pass. n = number of targets. Row r of the hidden states predicts the token that follows its own.
struct MicroBatch {
  at::Tensor ids, positions;                 // [tokens] int64
  std::vector<int64_t> cu_seqlens;           // of segments: [0, len0, len0 + len1, ...]
  std::vector<int64_t> parents;              // of each segment: Segment::parent; behind one all that goes on from it
  std::vector<int64_t> before;               // of each segment: tokens of its sequence before its first
  std::vector<int64_t> host_ids, host_rows;  // ids and rows, in the host's memory
  at::Tensor rows;                           // [n] int64: hidden rows that predict a target
  at::Tensor targets;                        // [n] int64
  at::Tensor weights;                        // [n] fp32, see loss_weights
  at::Tensor inverse_temperature;            // [n] fp32; undefined where all are 1
  at::Tensor sampler_log_probs;              // [n] fp32
  at::Tensor advantages;                     // [n] fp32
  at::Tensor on_policy;                      // [n] fp32: 1 where the target was sampled from the current weights
  at::Tensor lengths;                        // [sequences] int64: targets of each; their sum is n
  int64_t tokens = 0, target_count = 0;      // forwarded; predicted
  int64_t shared_tokens = 0;                 // that are not forwarded again for each sequence that has them

  int64_t segment_count() const { return static_cast<int64_t>(parents.size()); }
  int64_t segment_begin(int64_t segment) const { return cu_seqlens[static_cast<size_t>(segment)]; }
  int64_t segment_tokens(int64_t segment) const {
    return cu_seqlens[static_cast<size_t>(segment) + 1] - segment_begin(segment);
  }
  int64_t parent(int64_t segment) const { return parents[static_cast<size_t>(segment)]; }
  int64_t tokens_before(int64_t segment) const { return before[static_cast<size_t>(segment)]; }
  bool shares_prefixes() const { return shared_tokens > 0; }
};

// Segments of `sequences`, in order, each sequence cut to its forward_length, in the host's memory: pinned where a GPU
// is to have it. current_versions: weight versions that are the trainer's current weights.
MicroBatch pack_micro_batch(std::span<const TrainSequence> sequences, const std::vector<Segment>& segments,
                            const std::vector<double>& weights, const std::vector<int64_t>& current_versions,
                            bool pinned);
MicroBatch to_device(MicroBatch batch, at::Device device);  // does not wait for a GPU
// Both, of whole sequences.
MicroBatch make_micro_batch(std::span<const TrainSequence> sequences, const std::vector<size_t>& indices,
                            const std::vector<double>& weights, const std::vector<int64_t>& current_versions,
                            at::Device device);

}  // namespace tritonforge::train
