#include "train/gpu/ring_attention.h"

#include <limits>

namespace tritonforge::train::gpu {

RingAttention::RingAttention(const TokenShards& shards, Attention& attention, at::Device device)
    : shards_(shards),
      attention_(attention),
      options_(at::TensorOptions().dtype(at::kBFloat16).device(device)),
      heads_(shards.attention().num_heads),
      q_(heads_ * shards.attention().head_dim),
      kv_(shards.attention().num_kv_heads * shards.attention().head_dim) {}

int64_t RingAttention::bytes(int64_t rows, const model::ModelConfig& part, bool train) {
  const int64_t q = part.num_heads * part.head_dim, kv = part.num_kv_heads * part.head_dim;
  const int64_t forward = rows * (2 * 2 * kv * 2 + q * 2 + part.num_heads * 4 + q * 4);
  return forward + (train ? rows * (2 * 2 * kv * 4 + 2 * kv * 2) : 0);
}

void RingAttention::reserve(int64_t rows, int64_t slots, bool train) {
  if (shards_.ring() == nullptr) return;
  const auto fp32 = options_.dtype(at::kFloat);
  if (slots > slots_) {
    for (at::Tensor& kv : ring_) kv = at::empty({2 * slots * kv_}, options_);
    slots_ = slots;
  }
  if (rows > rows_) {
    part_ = at::empty({rows, q_}, options_);
    part_statistics_ = at::empty({rows, heads_}, fp32);
    sum_ = at::empty({rows, q_}, fp32);
    made_.reset();
    rows_ = rows;
  }
  if (!train || made_.defined()) return;
  for (at::Tensor& sums : sums_) sums = at::empty({2 * rows_ * kv_}, fp32);
  made_ = at::empty({2 * rows_ * kv_}, options_);
}

RingBuffers RingAttention::ring_of(const Attention::Operands& o) const {
  const int64_t slots = attention_.slots();
  const RingBuffers ring = of(ring_, slots);
  ring[0][0].copy_(o.keys.narrow(0, 0, slots));
  ring[0][1].copy_(o.values.narrow(0, 0, slots));
  return ring;
}

Attention::Operands RingAttention::with_keys(const Attention::Operands& o, const at::Tensor& kv) const {
  return {o.q, kv[0], kv[1], o.out, o.statistics};
}

void RingAttention::forward_round(const Attention::Operands& o, int64_t from, bool first, bool last) {
  if (first) {
    attention_.forward(o, from);
    sum_.narrow(0, 0, o.out.size(0)).copy_(o.out);
    return;
  }
  part_statistics_.fill_(-std::numeric_limits<float>::infinity());
  attention_.forward({o.q, o.keys, o.values, part_, part_statistics_}, from);
  const tritonforge::gpu::AttentionMergeArgs merge{.sum = sum_.mutable_data_ptr<float>(),
                                                   .statistics = o.statistics.mutable_data_ptr<float>(),
                                                   .part = bits(part_),
                                                   .part_statistics = part_statistics_.const_data_ptr<float>(),
                                                   .out = last ? bits(o.out) : nullptr,
                                                   .rows = shards_.attended_tokens(),
                                                   .heads = heads_,
                                                   .head_dim = q_ / heads_};
  check_cuda(tritonforge::gpu::open_cuda_library().attention_merge(&merge, kStream));
}

void RingAttention::forward(const Attention::Operands& o) {
  parallel::Group* const ring = shards_.ring();
  if (ring == nullptr) return attention_.forward(o, 0);
  const int64_t last = (ring->rank() + 1) % ring->size();
  around_ring(*ring, ring_of(o), [&](int64_t from, const at::Tensor& kv) {
    forward_round(with_keys(o, kv), from, from == ring->rank(), from == last);
  });
}

void RingAttention::backward_round(const Attention::Operands& o, int64_t from, bool first, const at::Tensor& d_out) {
  const at::Tensor made = this->made();
  made.zero_();  // no query of this rank's sees some of the keys, and none of another's early queries any
  if (!first) part_.zero_();
  attention_.backward(o, from, d_out, part_, made[0], made[1]);
  if (first) sum_.copy_(part_);
  else sum_.add_(part_);
}

void RingAttention::backward(const Attention::Operands& o, const at::Tensor& d_out, const at::Tensor& dq,
                             const at::Tensor& dk, const at::Tensor& dv) {
  parallel::Group* const ring = shards_.ring();
  if (ring == nullptr) return attention_.backward(o, 0, d_out, dq, dk, dv);
  const int64_t rows = rows_here();
  const at::Tensor own = around_ring(
      *ring, ring_of(o), of(sums_, rows), made(),
      [&](int64_t from, const at::Tensor& kv) { backward_round(with_keys(o, kv), from, from == ring->rank(), d_out); });
  dq.narrow(0, 0, rows).copy_(sum_.narrow(0, 0, rows));
  dk.narrow(0, 0, rows).copy_(own[0]);
  dv.narrow(0, 0, rows).copy_(own[1]);
}

}  // namespace tritonforge::train::gpu
