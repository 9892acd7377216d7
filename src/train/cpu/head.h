#pragma once
// The last norm and the head in fp32: log-probabilities and entropies of targets, and their gradients, with at most
// `chunk` rows of logits at a time. A log-probability has, to the bit, what the sampler gives for the token
// (kernels/sample.h) from the same hidden state.
#include "model/model.h"
#include "train/cpu/matrix.h"
#include "train/lm_head_loss.h"
#include "train/packing.h"
#include "train/token_shards.h"

namespace tritonforge::train::cpu {

class Head {
 public:
  // shards: begun with the batch of a pass.
  Head(const model::Model& model, int64_t chunk, const TokenShards& shards)
      : model_(model), chunk_(chunk), shards_(shards) {}
  void weights_changed() { packed_forward_ = packed_backward_ = false; }
  // x: hidden states of this rank's own tokens, [>= own, hidden], after the last layer. Scores of all targets.
  TargetScores forward(const MicroBatch& batch, const at::Tensor& x);
  // After forward() of the same. Adds to `gradients` and returns the gradient of x, own rows of [shard, hidden].
  at::Tensor backward(const MicroBatch& batch, const at::Tensor& grad_log_probs, const at::Tensor& grad_entropy,
                      const model::Model& gradients);

 private:
  // Of one target's softmax over rows of the vocabulary: the largest logit, sums over e = exp((z - max) f) of e and of
  // e (z - max) f, and the target's logit where it is one of them.
  struct Statistics {
    double max, total, weighted, target;
  };
  static Statistics merged(const Statistics& a, const Statistics& b, double f);
  // Logits of targets [begin, begin + rows) into [rows, vocab], rows `stride` apart.
  void logits(int64_t begin, int64_t rows, float* to, int64_t stride) const;
  // The row of the shard that predicts target `i` of the shard's; the target among this rank's rows of the vocabulary,
  // or -1.
  int64_t row_of(const MicroBatch& batch, int64_t i) const;
  int64_t target_of(const MicroBatch& batch, int64_t i) const;
  float factor_of(const MicroBatch& batch, int64_t i) const;

  const model::Model& model_;
  int64_t chunk_;
  const TokenShards& shards_;
  kernels::Panels forward_, backward_;
  bool packed_forward_ = false, packed_backward_ = false;
  at::Tensor x_;                              // [>= shard, hidden]
  at::Tensor normed_, scale_;                 // [n, hidden], [n], of the shard's targets
  at::Tensor max_, inverse_total_, entropy_;  // [n]: of each one's softmax
};

}  // namespace tritonforge::train::cpu
