#pragma once
// Causal attention of packed sequences and its gradient in fp32, each sequence for itself: over tokens that are all
// here or, in a ring, over the shard's own and over the keys and values of other ranks that come by.
#include <ATen/ATen.h>

#include <vector>

#include "kernels/packed_attention.h"
#include "train/token_shards.h"

namespace tritonforge::train::cpu {

class Attention {
 public:
  // shards: begun with the batch of a pass.
  explicit Attention(const TokenShards& shards);

  // Rows of tokens in attention (TokenShards::Rows::attended).
  struct Operands {
    at::Tensor rotated;       // [q + kv]: q and k
    at::Tensor qkv;           // [q + 2 kv], of which v is read
    at::Tensor mixed;         // [q]: the output
    at::Tensor max, inverse;  // [heads, rows]: of the softmax, what backward() needs
  };
  void forward(const Operands& operands);
  // grad_mixed in; rotated's gradient and qkv's out, of which v's alone is written. Laid out as what they are of.
  struct Grads {
    at::Tensor mixed, rotated, qkv;
  };
  void backward(const Operands& operands, const Grads& grads);

 private:
  using Spans = std::vector<Zigzag::Span>;
  // Rows of keys and of values, and where their gradients go.
  struct Keys {
    at::Tensor k, v, grad_k, grad_v;
  };
  // Of what span `index` of these goes on from.
  std::vector<kernels::KeyRun> keys_before(const Keys& keys, const Spans& spans, size_t index, int64_t head) const;
  void add_gradients_before(const Keys& keys, const Spans& spans, const std::vector<int64_t>& begins) const;
  kernels::AttentionHeads heads_of(const Operands& operands, const Keys& keys, const Zigzag::Span& span, int64_t head,
                                   bool causal) const;
  template <typename F>
  void over_heads(const Spans& spans, const F& f) const;  // f(index, head) of keys and values, the longest first
  void attend(const Operands& operands, const Keys& keys, const Spans& spans);
  void attend_others(const Operands& operands, const Keys& keys, const Spans& spans);
  void attend_backward(const Operands& operands, const Keys& keys, const Spans& spans, const Grads& grads, bool causal);
  // k and v side by side in one buffer of ring_, and those of another rank.
  void pack(const Operands& operands);
  Keys keys_in(const at::Tensor& kv, const at::Tensor& grad = {}) const;
  void reserve_ring(bool backward);

  const TokenShards& shards_;
  const int64_t heads_, kv_heads_, head_dim_, q_, kv_;
  RingBuffers ring_, ring_sums_;  // shard [2 kv]
  at::Tensor ring_made_;
  at::Tensor grad_before_;  // [2 kv]: each segment's share in the gradients of keys and values of the tokens before it
};

}  // namespace tritonforge::train::cpu
