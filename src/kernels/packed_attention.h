#pragma once
// Causal attention over whole sequences in fp32 on the CPU, forward and backward: what trains. Every row of the forward
// pass has, to the bit, what paged_attention.h computes for that token from its cache. A sequence's keys may also come
// in parts, of which each query sees all (ring attention, arXiv 2310.01889).
#include <cstdint>
#include <memory>
#include <span>

namespace tritonforge::kernels {

// Keys and values of tokens that come before those of AttentionHeads, with their strides.
struct KeyRun {
  const float *k, *v;
  int64_t tokens;
};

// One sequence, or the end of one, and the query heads that share one key head. Token t of head h (of `group`) lies at
// q + t * q_stride + h * head_dim, key s and its value at k + s * k_stride and v + s * v_stride; out is as q.
struct AttentionHeads {
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;
  int64_t tokens, keys;  // causal: as many, and token t sees keys 0 to t; else it sees all, of which there is one
  bool causal;
  int64_t group, head_dim;
  float scale;
  float* out;
  int64_t out_stride;
  float *max, *inverse;  // [group, statistic_stride] of each row's softmax: written forward, read backward
  int64_t statistic_stride;
  std::span<const KeyRun> before;  // causal: in the order of their tokens, all of which every query sees
};

// Gradients of out in, of q, k and v out, each laid out as the tensor that it is of. add_q: to what q's has.
struct AttentionGrads {
  const float* out;
  float *q, *k, *v;
  bool add_q = false;
  float *before_k = nullptr, *before_v = nullptr;  // of the keys and values before, one behind the other
  int64_t before_stride = 0;
};

// Scratch that calls of one thread share.
class AttentionScratch {
 public:
  AttentionScratch();
  ~AttentionScratch();
  struct Buffers;
  Buffers& buffers() { return *buffers_; }

 private:
  std::unique_ptr<Buffers> buffers_;
};

void attend(const AttentionHeads& heads, AttentionScratch& scratch);
// out, max and inverse of `whole`, over some keys, become those over these and the keys of `part`, which has the same
// tokens and heads.
void merge(const AttentionHeads& whole, const AttentionHeads& part);
// The part of the gradients that these keys have, where out, max and inverse are those over all keys.
void attend_backward(const AttentionHeads& heads, const AttentionGrads& grads, AttentionScratch& scratch);

}  // namespace tritonforge::kernels
