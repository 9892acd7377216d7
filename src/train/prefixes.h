#pragma once
// The tokens that sequences of a step begin with together, which a micro-batch has once: the prompt of a group's
// samples, the history of turns that are sequences of their own, the text that all prompts begin with. What goes on
// from them attends to them as if they were its own. Targets are never among them: each stays with its sequence.
#include <optional>
#include <span>
#include <vector>

#include "train/flops.h"
#include "train/packing.h"
#include "train/pass.h"

namespace tritonforge::train {

// What sharing saves, and what it costs where the passes run.
struct SharingCosts {
  TrainingFlops flops;
  SegmentLayout layout;
};

class SharedPrefixes {
 public:
  // Of sequences[indices], which have a target each. Tokens are shared where that saves operations; costs: none: never.
  SharedPrefixes(std::span<const TrainSequence> sequences, const std::vector<size_t>& indices,
                 const std::optional<SharingCosts>& costs);

  // `indices` shared out to parts: what begins alike is in one, as long as that has no more than `limit` tokens.
  std::vector<std::vector<size_t>> parts(const std::vector<size_t>& indices, int64_t limit) const;
  // What a micro-batch of these sequences is made of: behind a segment all that goes on from it. Where nothing is
  // shared, a sequence each in their order. No more tokens than those of parts that it is put together from.
  std::vector<Segment> segments(const std::vector<size_t>& indices) const;

 private:
  struct Node {
    int64_t parent, end;  // shared tokens: from the parent's end on
  };
  struct Run {  // sequences that have a neighbour's first `common` tokens, in the order of their tokens
    size_t sequence;
    int64_t common;  // with the one before
  };
  void grow(std::span<const Run> runs, int64_t parent, const SharingCosts& costs);
  bool pays(std::span<const Run> runs, int64_t children, int64_t begin, int64_t end, const SharingCosts& costs) const;
  int64_t end_of(int64_t node) const { return node < 0 ? 0 : nodes_[static_cast<size_t>(node)].end; }
  std::vector<int64_t> path_to(size_t sequence) const;  // nodes, from the first tokens on
  // What begins alike side by side, at the place of its first.
  std::vector<size_t> ordered(const std::vector<size_t>& indices) const;

  std::vector<Node> nodes_;
  std::vector<int64_t> parents_, lengths_;  // of each sequence: the node that it goes on from, or -1; tokens to be run
};

double training_flops(const TrainingFlops& flops, std::span<const Segment> segments, int64_t targets);

}  // namespace tritonforge::train
