#pragma once
// The last norm and the head in bfloat16 with fp32 logits: log-probabilities and entropies of targets, and their
// gradients, with at most `chunk` rows of logits at a time.
#include "train/gpu/products.h"
#include "train/gradients.h"
#include "train/lm_head_loss.h"
#include "train/packing.h"
#include "train/token_shards.h"

namespace tritonforge::train::gpu {

class Head {
 public:
  // shards: begun with the batch of a pass.
  Head(const model::Model& model, int64_t chunk, Products& products, const TokenShards& shards);
  // Takes the memory of passes with so many targets in a shard; one with more takes more. `train`: with backward
  // passes.
  void reserve(int64_t targets, bool train);
  // Of it, of a rank whose part of the model has this shape.
  static int64_t bytes(const model::ModelConfig& part, int64_t targets, int64_t chunk, bool train);
  // x: hidden states of this rank's own tokens, [own, hidden], after the last layer. Scores of all targets.
  // known: may be null; else what backward() does with a chunk's logits is done at once, the head's gradient included.
  // gradients: null where no backward pass follows.
  TargetScores forward(const MicroBatch& batch, const at::Tensor& x, const KnownGradients& known, Gradients* gradients);
  // After forward(). Adds to the gradients; writes the gradient of x's rows that predict a target to the own rows of
  // `grad` [shard, hidden], and nothing to the others.
  void backward(const ScoreGradients& of, const at::Tensor& grad, Gradients& gradients);

 private:
  // The logits of chunk `index`, fp32 [rows, vocab], of which the last ones may be padding.
  at::Tensor project(int64_t index);
  int64_t begin_of(int64_t index) const { return index * chunk_; }
  int64_t rows_of(int64_t index) const;  // targets of the chunk
  // Scores of the chunk over this rank's rows of the vocabulary become those over all ranks'.
  void merge(int64_t index);
  // From the chunk's logits, which are overwritten, to the gradients of normed_ and of the head.
  void chunk_backward(int64_t index, const ScoreGradients& of, Gradients& gradients);

  const CudaApi& api_;
  const model::Model& model_;
  const int64_t chunk_;
  Products& products_;
  const TokenShards& shards_;
  int64_t capacity_ = 0, count_ = 0;    // targets: allocated for, of this pass
  int64_t kept_ = -1;                   // the chunk whose logits are there
  at::Tensor rows_;                     // [n] int32, of the shard
  at::Tensor targets_, mine_;           // [n] int32: among this rank's rows of the vocabulary, or -1; or any of them
  at::Tensor inverse_temperature_;      // [n] fp32; undefined where all are 1
  at::Tensor x_, normed_, grad_;        // [n, hidden], padded: rows that predict a target, after the norm, gradient
  at::Tensor logits_;                   // [chunk, vocab] fp32
  at::Tensor maximum_, inverse_total_;  // [n] fp32
  TargetScores scores_;
  bool added_ = false;  // to the head's gradient in this micro-batch
  bool done_ = false;   // the chunks' backward passes, in the forward pass
  at::Tensor partials_;
};

}  // namespace tritonforge::train::gpu
