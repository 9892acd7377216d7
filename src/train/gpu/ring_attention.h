#pragma once
// Attention of a layer on one rank: over all of its keys at once or, in a ring, over each rank's as they come by, the
// parts put together in fp32 (train/ring.h).
#include "train/gpu/attention.h"
#include "train/token_shards.h"

namespace tritonforge::train::gpu {

class RingAttention {
 public:
  // shards: begun with the batch of a pass, attention likewise.
  RingAttention(const TokenShards& shards, Attention& attention, at::Device device);
  // Takes the memory of passes with so many rows of attention and slots of pages, where there is a ring.
  void reserve(int64_t rows, int64_t slots, bool train);
  // Of it: heads and kv_heads of a rank.
  static int64_t bytes(int64_t rows, const model::ModelConfig& part, bool train);
  // As Attention's, over the keys of all ranks. Rows beyond the tokens are left without meaning.
  void forward(const Attention::Operands& operands);
  void backward(const Attention::Operands& operands, const at::Tensor& d_out, const at::Tensor& dq,
                const at::Tensor& dk, const at::Tensor& dv);

  // One round of each, without the others: what the passes above are made of. The first round of a pass is the own one.
  // Over the keys of `from`, added to what the rounds before made; out is written with the last of them.
  void forward_round(const Attention::Operands& operands, int64_t from, bool first, bool last);
  // dq is added to in fp32, made() becomes what the keys of `from` have.
  void backward_round(const Attention::Operands& operands, int64_t from, bool first, const at::Tensor& d_out);
  const at::Tensor& dq() const { return sum_; }               // [>= tokens, q] fp32
  at::Tensor made() const { return of(made_, rows_here()); }  // [2, rows, kv]: dk, dv

 private:
  int64_t rows_here() const { return shards_.rows().attended; }
  at::Tensor of(const at::Tensor& flat, int64_t rows) const {
    return flat.narrow(0, 0, 2 * rows * kv_).view({2, rows, kv_});
  }
  RingBuffers of(const RingBuffers& flat, int64_t rows) const { return {of(flat[0], rows), of(flat[1], rows)}; }
  RingBuffers ring_of(const Attention::Operands& operands) const;  // which begins with the own keys and values
  Attention::Operands with_keys(const Attention::Operands& operands, const at::Tensor& kv) const;

  const TokenShards& shards_;
  Attention& attention_;
  const at::TensorOptions options_;
  const int64_t heads_, q_, kv_;
  int64_t rows_ = 0, slots_ = 0;
  RingBuffers ring_, sums_;            // flat [2, slots, kv]: keys, values; [2, rows, kv] fp32: of their gradients
  at::Tensor made_;                    // likewise, of a round
  at::Tensor part_, part_statistics_;  // [rows, q], [rows, heads] fp32: of a round
  at::Tensor sum_;                     // [rows, q] fp32: the output over the rounds so far; or q's gradient
};

}  // namespace tritonforge::train::gpu
