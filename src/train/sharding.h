#pragma once
// Data parallelism with a sharded optimizer, ZeRO-1 (Rajbhandari et al. 2020, section 5.1): every rank has all weights
// and makes gradients for all of them from its own micro-batches; their sum, the optimizer's state and the update of a
// weight are one rank's.
#include <vector>

#include "model/tensor_parallel.h"
#include "parallel/group.h"
#include "train/gradients.h"

namespace tritonforge::train {

// Elements of a model's arena.
struct ArenaPart {
  int64_t begin, count;
};
// What is communicated as one: the embedding, each layer, and what follows them. Together they are the arena; a
// pipeline's stage has nothing in the first of them, or in the last.
std::vector<ArenaPart> arena_segments(const model::Model& model);

class Sharding {
 public:
  // Gradients and model outlive it.
  Sharding(const model::Model& model, Gradients& gradients, const parallel::Groups& groups);

  // Of each segment; where nobody else has the same weights, of the whole arena as one.
  const std::vector<ArenaPart>& own() const { return own_; }
  // Those elements of own() of which no rank with another part of the model has a replica that counts: together the
  // ranks' are the model's.
  const std::vector<ArenaPart>& counted() const { return counted_; }
  model::TensorParallel tensor_parallel() const;
  // Whether the tensor is another rank's, too, that has another part of the model, and counts there.
  bool counts_elsewhere(const std::string& name, const at::Tensor& tensor) const;
  // The rows [n] of the embedding that have a gradient on any rank: where they are few, they alone are summed.
  // Undefined: any may have.
  void embed(at::Tensor rows) { embedded_ = std::move(rows); }
  // Nothing more is added to the segment's gradients in this step: their sum begins.
  void gradients_are_ready(size_t segment);
  // Afterwards the gradients in own() are the ranks' sums.
  void sum_gradients();
  void sum(const at::Tensor& scalar, std::string_view what);  // over all ranks
  // own()[part] of the weights, as it is now, is on its way to all ranks; each calls it for every part, in their order.
  void share_weights(size_t part);
  void await_weights(size_t part);  // what reads them afterwards finds all ranks'
  void await_weights();             // of all parts

 private:
  // What tensor-parallel ranks have replicas of: each has made a gradient from its own tokens or heads.
  void sum_replicas(size_t segment);
  // Of an embedding that is the head, too, the first stage of a pipeline has the gradient as the one, the last as the
  // other.
  void sum_table();
  bool shares_table() const;
  at::Tensor part(const at::Tensor& arena, size_t segment) const {
    return arena.narrow(0, segments_[segment].begin, segments_[segment].count);
  }
  const model::Model& model_;
  Gradients& gradients_;
  const parallel::Groups groups_;
  parallel::Group *const group_, *const tp_;  // with the same weights; with other parts of the same layers
  at::Tensor embedded_, embedded_sums_;       // rows; their gradients, while they are summed
  std::vector<ArenaPart> segments_, own_, counted_;
  std::vector<std::vector<ArenaPart>> replicas_;     // of each segment
  std::vector<bool> summed_;                         // of each segment, in this step: or its sum has begun
  std::vector<parallel::PendingPtr> sums_, shares_;  // of each segment, while they are under way
};

}  // namespace tritonforge::train
