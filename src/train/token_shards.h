#pragma once
// Where the tokens of a micro-batch lie among the ranks that compute it together, and how activations come to where
// they are needed. Sequence parallelism shares out what lies between a layer's products among tensor-parallel ranks
// (arXiv 2205.05198), context parallelism shares out all of a layer but attention, which has all tokens and some of the
// heads (DeepSpeed-Ulysses, arXiv 2309.14509): packed sequences of whatever lengths are balanced.
#include <ATen/ATen.h>

#include <initializer_list>
#include <string_view>

#include "model/config.h"
#include "parallel/group.h"
#include "train/packing.h"

namespace tritonforge::train {

class TokenShards {
 public:
  // part: the tensor-parallel rank's shape. unit: a shard's tokens are a multiple of it. kUsage where the heads cannot
  // be shared out.
  TokenShards(const parallel::Groups& groups, const model::ModelConfig& part, int64_t unit);
  // The shape of the attention that each of `cp` ranks computes. kUsage where the heads cannot be shared out.
  static model::ModelConfig attention_of(const model::ModelConfig& part, int64_t cp);
  void begin(const MicroBatch& batch);

  bool alone() const { return tp_ == nullptr && cp_ == nullptr; }
  bool tensor_parallel() const { return tp_ != nullptr; }
  bool context_parallel() const { return cp_ != nullptr; }
  // The shape of this rank's attention.
  const model::ModelConfig& attention() const { return attention_; }
  // Rows of activations: of the micro-batch, padded; of a context-parallel rank, in its products; of a tensor-parallel
  // one of those, between the products.
  struct Rows {
    int64_t all, shard, own;
  };
  Rows rows_of(int64_t tokens) const { return rows_of(tokens, unit_, tp_size_, cp_size_); }  // of another micro-batch
  static Rows rows_of(int64_t tokens, int64_t unit, int64_t tp, int64_t cp);
  const Rows& rows() const { return rows_; }
  // The shard's tokens, padding apart, are the micro-batch's [shard_begin(), shard_begin() + shard_tokens()).
  int64_t shard_begin() const { return cp_rank_ * rows_.shard; }
  int64_t shard_tokens() const { return shard_tokens_; }
  // The targets of the micro-batch that rows of the shard predict, and which of them rows of this rank's own do.
  struct Targets {
    int64_t begin, count;
  };
  const Targets& shard_targets() const { return shard_targets_; }
  const Targets& own_targets() const { return own_targets_; }
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
  // Over the context-parallel ranks: x [targets of the shard] as [targets of the micro-batch].
  at::Tensor of_all_targets(const at::Tensor& x, std::string_view what) const;

  // Heads, whose counts in the tensor-parallel rank's shape are given, side by side: [shard, heads d] of all of them to
  // [all, heads d] of this rank's; and back, where what several ranks have of one head is summed. Contiguous.
  at::Tensor to_heads(const at::Tensor& x, std::initializer_list<int64_t> heads, std::string_view what) const;
  at::Tensor to_tokens(const at::Tensor& x, std::initializer_list<int64_t> heads, std::string_view what) const;

 private:
  struct Heads {
    int64_t each, copies, begin, part_begin;  // of a rank, ranks with the same; columns before, in all and in a part
  };
  std::vector<Heads> shares_of(std::initializer_list<int64_t> heads) const;

  parallel::Group *const tp_, *const cp_;
  const int64_t tp_size_, tp_rank_, cp_size_, cp_rank_, unit_;
  model::ModelConfig attention_;
  Rows rows_{};
  int64_t tokens_ = 0, targets_ = 0, shard_tokens_ = 0;
  Targets shard_targets_{}, own_targets_{};
};

// Nothing where there is nobody.
inline void await(const parallel::PendingPtr& pending) {
  if (pending != nullptr) pending->wait();
}

}  // namespace tritonforge::train
