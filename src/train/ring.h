#pragma once
// Ring attention (arXiv 2310.01889): each of the ranks that share out a micro-batch's tokens has queries, keys and
// values of its own tokens, and the keys and values go from rank to rank until each has seen all of them; in the
// backward pass their gradients travel behind them. A causal sequence is cut into twice as many chunks as there are
// ranks, of which rank r has the r-th and the r-th from the end ("zigzag", arXiv 2407.21783, section 3.3.2): so each
// rank has as much to compute as another in every round, and half of what all queries and all keys would be.
#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/group.h"

namespace tritonforge::train {

class Zigzag {
 public:
  // Of packed sequences [cu_seqlens[i], cu_seqlens[i + 1]). No rank has a token more than another's rounded up share.
  Zigzag(std::span<const int64_t> cu_seqlens, int64_t ranks);

  // Of one sequence on one rank: its tokens of the micro-batch [early_token, early_token + early), then those from
  // late_token on; both stand in this order in the rank's rows from `row` on. Either may be none.
  struct Chunks {
    int64_t row, early_token, early, late_token, late;
    int64_t tokens() const { return early + late; }
  };
  const std::vector<Chunks>& of(int64_t rank) const { return chunks_[static_cast<size_t>(rank)]; }
  int64_t ranks() const { return std::ssize(chunks_); }
  std::vector<int64_t> tokens_of(int64_t rank) const;  // which of the micro-batch's the rank's rows are

  // Of each sequence, the rank's rows whose queries see keys of rank `from`, and those of that one's rows: each query
  // all of them or, of its own rank, those up to its own row. A span may have no queries or no keys.
  struct Span {
    int64_t query, queries, key, keys;
  };
  std::vector<Span> spans(int64_t rank, int64_t from) const;

 private:
  std::vector<std::vector<Chunks>> chunks_;  // [rank][sequence]
};

// Buffers of one shape, contiguous.
using RingBuffers = std::array<at::Tensor, 2>;

// Everybody's keys and values past every rank, the own ones, in kv[0], first: visit(from, kv), while the next ones
// come.
template <typename Visit>
void around_ring(parallel::Group& ring, const RingBuffers& kv, const Visit& visit) {
  for (int64_t round = 0; round < ring.size(); ++round) {
    const at::Tensor &here = kv[round % 2], &coming = kv[(round + 1) % 2];
    const bool last = round + 1 == ring.size();
    const auto pending = last ? nullptr : ring.shift(coming.view({-1}), here.view({-1}), "keys and values");
    visit((ring.rank() + ring.size() - round) % ring.size(), here);
    if (pending != nullptr) pending->wait();
  }
}

// The same, and sums of their gradients behind them: visit(from, kv) writes this rank's part of them to all of `made`.
// Returns the sums of the own ones, which are in one of `sums`.
template <typename Visit>
at::Tensor around_ring(parallel::Group& ring, const RingBuffers& kv, const RingBuffers& sums, const at::Tensor& made,
                       const Visit& visit) {
  parallel::PendingPtr coming;
  around_ring(ring, kv, [&](int64_t from, const at::Tensor& here) {
    const int64_t round = (ring.rank() + ring.size() - from) % ring.size();
    at::Tensor sum = sums[round % 2];
    visit(from, here);
    if (coming != nullptr) {
      coming->wait();
      sum.add_(made);
    } else {
      sum.copy_(made);
    }
    coming = ring.shift(sums[(round + 1) % 2].view({-1}), sum.view({-1}), "gradients of keys and values");
  });
  coming->wait();
  return sums[ring.size() % 2];
}

}  // namespace tritonforge::train
