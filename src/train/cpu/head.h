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
  // The same, and adds to `gradients` what backward() would, from logits that are computed once.
  TargetScores forward_backward(const MicroBatch& batch, const at::Tensor& x, const KnownGradients& known,
                                const model::Model& gradients);
  // After either of the same. After forward(), adds to `gradients`; returns the gradient of x, own rows of
  // [shard, hidden].
  at::Tensor backward(const ScoreGradients& of, const model::Model& gradients);

 private:
  // Of one target's softmax over rows of the vocabulary: the largest logit, sums over e = exp((z - max) f) of e and of
  // e (z - max) f, and the target's logit where it is one of them.
  struct Statistics {
    double max, total, weighted, target;
  };
  static Statistics merged(const Statistics& a, const Statistics& b, double f);
  void begin(const MicroBatch& batch, const at::Tensor& x);
  template <typename F>
  void over_chunks(const F& f) {  // f(first, count) of the shard's targets
    const int64_t n = shards_.shard_targets().count;
    for (int64_t first = 0; first < n; first += chunk_) f(first, std::min(chunk_, n - first));
  }
  // Scores of targets [first, first + count); their logits to rows of `kept`, where it is defined.
  void score(int64_t first, int64_t count, const at::Tensor& kept);
  void begin_backward();
  // From the chunk's logits, which are in logits_ or made `again`, and overwritten.
  void chunk_backward(int64_t first, int64_t count, const ScoreGradients& of, bool again,
                      const model::Model& gradients);
  void end_backward(const model::Model& gradients);
  // Of target `i` of the shard's: to grad_x_, and to the `sum` of the norm's gradient.
  void norm_backward(int64_t i, const float* grad, float* sum);
  // Logits of targets [begin, begin + rows) into [rows, vocab], rows `stride` apart.
  void logits(int64_t begin, int64_t rows, float* to, int64_t stride) const;
  // Of target `i` of the shard's: the row of the shard that predicts it; the target among this rank's rows of the
  // vocabulary, or -1; by what its logits are multiplied.
  int64_t row_of(int64_t i) const { return shards_.target_rows()[static_cast<size_t>(i)]; }
  int64_t target_of(int64_t i) const;
  float factor_of(int64_t i) const;

  const model::Model& model_;
  int64_t chunk_;
  const TokenShards& shards_;
  kernels::Panels forward_, backward_;
  bool packed_forward_ = false, packed_backward_ = false;
  at::Tensor x_;                     // [>= shard, hidden]
  at::Tensor targets_, factors_;     // [n]: of the shard; the second may be undefined
  at::Tensor normed_, scale_;        // [n, hidden], [n], of the shard's targets
  TargetScores scores_;              // likewise
  at::Tensor max_, inverse_total_;   // [n]: of each one's softmax
  at::Tensor logits_, grad_normed_;  // of a backward pass: [chunk, vocab]; [n, hidden], of a tensor-parallel rank
  at::Tensor grad_x_;                // what backward() returns, where it is there
};

}  // namespace tritonforge::train::cpu
