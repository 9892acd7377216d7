#pragma once
// Where the tokens of a micro-batch lie among the ranks that compute it together, and how activations come to where
// they are needed. Sequence parallelism shares out what lies between a layer's products among tensor-parallel ranks
// (arXiv 2205.05198), context parallelism shares out all of a layer but attention. Of that, in one of its forms, each
// rank has all tokens and some of the heads (DeepSpeed-Ulysses, arXiv 2309.14509), in the other all heads and its own
// tokens' queries, past which the keys and values of all others go (train/ring.h). In both, packed sequences of
// whatever lengths are balanced.
#include <ATen/ATen.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "parallel/group.h"
#include "train/lm_head_loss.h"
#include "train/packing.h"
#include "train/ring.h"

namespace tritonforge::train {

class TokenShards {
 public:
  // part: the tensor-parallel rank's shape. unit: a shard's tokens are a multiple of it. kUsage where the heads cannot
  // be shared out.
  TokenShards(const parallel::Groups& groups, const model::ModelConfig& part, int64_t unit);
  // The shape of the attention that each of `cp` ranks computes. kUsage where the heads cannot be shared out.
  static model::ModelConfig attention_of(const model::ModelConfig& part, int64_t cp, parallel::CpForm form);
  void begin(const MicroBatch& batch);

  bool alone() const { return tp_ == nullptr && cp_ == nullptr; }
  bool tensor_parallel() const { return tp_ != nullptr; }
  // The ranks between which tokens become heads; those past which keys and values go. One of them or none.
  bool exchanges_heads() const { return cp_ != nullptr && form_ == parallel::CpForm::kUlysses; }
  parallel::Group* ring() const { return form_ == parallel::CpForm::kRing ? cp_ : nullptr; }
  // Where the batch's tokens lie in attention: among the ranks of the ring or, of no ring, all with rank 0.
  const Zigzag& zigzag() const { return *zigzag_; }
  // Of the batch's segments: the one that each goes on from, or -1, and its tokens before (MicroBatch).
  const std::vector<int64_t>& parents() const { return parents_; }
  const std::vector<int64_t>& tokens_before() const { return before_; }
  int64_t ring_rank() const { return ring() != nullptr ? cp_rank_ : 0; }
  // The shape of this rank's attention.
  const model::ModelConfig& attention() const { return attention_; }
  // Rows of activations: of the micro-batch, padded; of a rank's attention, which are all or the shard; of a
  // context-parallel rank, in its products; of a tensor-parallel one of those, between the products.
  struct Rows {
    int64_t all, attended, shard, own;
  };
  Rows rows_of(int64_t tokens) const { return rows_of(tokens, unit_, tp_size_, cp_size_, form_); }
  static Rows rows_of(int64_t tokens, int64_t unit, int64_t tp, int64_t cp, parallel::CpForm form);
  const Rows& rows() const { return rows_; }
  // Which of the micro-batch's tokens the shard's rows are, padding apart, ascending.
  const std::vector<int64_t>& shard_tokens() const { return shard_tokens_; }
  // Of attention's rows, padding apart: how many, and the position of each in its sequence.
  int64_t attended_tokens() const { return ring() != nullptr ? std::ssize(shard_tokens_) : tokens_; }
  at::Tensor attended_positions(const MicroBatch& batch) const;
  // The targets that rows of the shard predict, and the row of the shard that predicts each.
  const TargetSlice& shard_targets() const { return shard_targets_; }
  TargetSlice shard_targets(int64_t first, int64_t count) const {
    return {shard_targets_.begin + first, count, shard_targets_.places};
  }
  const std::vector<int64_t>& target_rows() const { return target_rows_; }
  // Those of the shard's that rows of this rank's own predict.
  struct OwnTargets {
    int64_t first, count;
  };
  const OwnTargets& own_targets() const { return own_targets_; }
  // Where this rank's own rows begin in a shard; the own rows of a shard's [shard, ...].
  int64_t own_begin() const { return tp_rank_ * rows_.own; }
  at::Tensor own(const at::Tensor& shard) const { return shard.narrow(0, own_begin(), rows_.own); }
  // Where this rank's rows of the vocabulary begin.
  int64_t vocab_begin() const { return tp_rank_ * attention_.vocab_size; }

  // x: [shard, width], contiguous, in place; null where there is nobody to wait for.
  parallel::PendingPtr gather(const at::Tensor& x, std::string_view what) const;  // everybody's own rows to all
  parallel::PendingPtr sum(const at::Tensor& x, std::string_view what) const;     // own(x): the sum over the ranks
  // Over the tensor-parallel ranks: the sums of x, contiguous; everybody's x [...] as [ranks, ...].
  void sum_all(const at::Tensor& x, std::string_view what) const;
  at::Tensor gather_all(const at::Tensor& x, std::string_view what) const;
  // Over the context-parallel ranks, at once: of the shard's targets as of the micro-batch's.
  TargetScores of_all_targets(const TargetScores& shard) const;

  // Heads, whose counts in the tensor-parallel rank's shape are given, side by side: [shard, heads d] of all of them to
  // [all, heads d] of this rank's; and back, where what several ranks have of one head is summed. Contiguous.
  at::Tensor to_heads(const at::Tensor& x, std::initializer_list<int64_t> heads, std::string_view what) const;
  at::Tensor to_tokens(const at::Tensor& x, std::initializer_list<int64_t> heads, std::string_view what) const;

 private:
  struct Heads {
    int64_t each, copies, begin, part_begin;  // of a rank, ranks with the same; columns before, in all and in a part
  };
  void share_out_targets(const MicroBatch& batch);
  std::vector<Heads> shares_of(std::initializer_list<int64_t> heads) const;

  parallel::Group *const tp_, *const cp_;
  const parallel::CpForm form_;
  const int64_t tp_size_, tp_rank_, cp_size_, cp_rank_, unit_;
  model::ModelConfig attention_;
  Rows rows_{};
  int64_t tokens_ = 0, targets_ = 0;
  std::optional<Zigzag> zigzag_;
  std::vector<int64_t> shard_tokens_, target_rows_, parents_, before_;
  at::Tensor shard_places_;  // shard_tokens_ on the batch's device, in a ring
  TargetSlice shard_targets_;
  OwnTargets own_targets_{};
};

// Nothing where there is nobody.
inline void await(const parallel::PendingPtr& pending) {
  if (pending != nullptr) pending->wait();
}

}  // namespace tritonforge::train
