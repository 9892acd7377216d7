#include "train/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/fused_rows.h"
#include "train/cpu/matrix.h"

namespace tritonforge::train::cpu {
namespace {

// A part of a row of attention over keys of another rank, before it is merged: memory of the calling thread.
struct Part {
  std::vector<float> out, max, inverse;
};
kernels::AttentionHeads in_part(kernels::AttentionHeads heads) {
  thread_local Part part;
  const int64_t width = heads.group * heads.head_dim;
  part.out.resize(static_cast<size_t>(heads.tokens * width));
  part.max.resize(static_cast<size_t>(heads.tokens * heads.group));
  part.inverse.resize(part.max.size());
  heads.out = part.out.data();
  heads.out_stride = width;
  heads.max = part.max.data();
  heads.inverse = part.inverse.data();
  heads.statistic_stride = heads.tokens;
  return heads;
}

kernels::AttentionScratch& scratch() {
  thread_local kernels::AttentionScratch memory;
  return memory;
}

}  // namespace

Attention::Attention(const TokenShards& shards)
    : shards_(shards),
      heads_(shards.attention().num_heads),
      kv_heads_(shards.attention().num_kv_heads),
      head_dim_(shards.attention().head_dim),
      q_(heads_ * head_dim_),
      kv_(kv_heads_ * head_dim_) {}

template <typename F>
void Attention::over_heads(const Spans& spans, const F& f) const {
  std::vector<size_t> order;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].queries > 0 && spans[i].keys > 0) order.push_back(i);
  }
  const auto pairs = [&](size_t i) { return spans[i].queries * (spans[i].keys + 2 * shards_.tokens_before()[i]); };
  std::ranges::stable_sort(order, std::greater(), pairs);
  over_parts(std::ssize(order) * kv_heads_,
             [&](int64_t part) { f(order[static_cast<size_t>(part / kv_heads_)], part % kv_heads_); });
}

std::vector<kernels::KeyRun> Attention::keys_before(const Keys& keys, const Spans& spans, size_t index,
                                                    int64_t head) const {
  std::vector<kernels::KeyRun> runs;
  for (int64_t s = shards_.parents()[index]; s >= 0; s = shards_.parents()[static_cast<size_t>(s)]) {
    const Zigzag::Span& span = spans[static_cast<size_t>(s)];
    runs.push_back({row(keys.k, span.key) + head * head_dim_, row(keys.v, span.key) + head * head_dim_, span.keys});
  }
  std::ranges::reverse(runs);
  return runs;
}

kernels::AttentionHeads Attention::heads_of(const Operands& o, const Keys& keys, const Zigzag::Span& span, int64_t head,
                                            bool causal) const {
  const int64_t group = heads_ / kv_heads_, q = head * group * head_dim_, kv = head * head_dim_;
  return {.q = row(o.rotated, span.query) + q,
          .k = row(keys.k, span.key) + kv,
          .v = row(keys.v, span.key) + kv,
          .q_stride = o.rotated.stride(0),
          .k_stride = keys.k.stride(0),
          .v_stride = keys.v.stride(0),
          .tokens = span.queries,
          .keys = span.keys,
          .causal = causal,
          .group = group,
          .head_dim = head_dim_,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim_))),
          .out = row(o.mixed, span.query) + q,
          .out_stride = q_,
          .max = row(o.max, head * group) + span.query,
          .inverse = row(o.inverse, head * group) + span.query,
          .statistic_stride = o.max.stride(0)};
}

void Attention::attend(const Operands& o, const Keys& keys, const Spans& spans) {
  over_heads(spans, [&](size_t index, int64_t head) {
    kernels::AttentionHeads heads = heads_of(o, keys, spans[index], head, /*causal=*/true);
    const std::vector<kernels::KeyRun> before = keys_before(keys, spans, index, head);
    heads.before = before;
    kernels::attend(heads, scratch());
  });
}

void Attention::attend_others(const Operands& o, const Keys& keys, const Spans& spans) {
  over_heads(spans, [&](size_t index, int64_t head) {
    const kernels::AttentionHeads heads = heads_of(o, keys, spans[index], head, /*causal=*/false),
                                  part = in_part(heads);
    kernels::attend(part, scratch());
    kernels::merge(heads, part);
  });
}

void Attention::attend_backward(const Operands& o, const Keys& keys, const Spans& spans, const Grads& grads,
                                bool causal) {
  std::vector<int64_t> begins;  // rows of grad_before_
  int64_t rows_before = 0;
  for (const int64_t before : shards_.tokens_before()) {
    begins.push_back(rows_before);
    rows_before += before;
  }
  if (!grad_before_.defined() || grad_before_.size(0) < rows_before)
    grad_before_ = at::empty({rows_before, 2 * kv_}, at::kFloat);
  over_heads(spans, [&](size_t index, int64_t head) {
    const Zigzag::Span& span = spans[index];
    const int64_t q = head * heads_ / kv_heads_ * head_dim_, kv = head * head_dim_;
    kernels::AttentionHeads heads = heads_of(o, keys, span, head, causal);
    const std::vector<kernels::KeyRun> before = keys_before(keys, spans, index, head);
    heads.before = before;
    float* grad_before = row(grad_before_, begins[index]) + kv;
    kernels::attend_backward(heads,
                             {.out = row(grads.mixed, span.query) + q,
                              .q = row(grads.rotated, span.query) + q,
                              .k = row(keys.grad_k, span.key) + kv,
                              .v = row(keys.grad_v, span.key) + kv,
                              .add_q = !causal,
                              .before_k = grad_before,
                              .before_v = grad_before + kv_,
                              .before_stride = 2 * kv_},
                             scratch());
  });
  if (rows_before > 0) add_gradients_before(keys, spans, begins);
}

// What segments gave to keys and values of those that they go on from, in the order of the segments.
void Attention::add_gradients_before(const Keys& keys, const Spans& spans, const std::vector<int64_t>& begins) const {
  const std::vector<int64_t>&parents = shards_.parents(), &before = shards_.tokens_before();
  for (size_t shared = 0; shared < spans.size(); ++shared) {
    size_t end = shared + 1;  // of all that goes on from it
    while (end < spans.size() && parents[end] >= static_cast<int64_t>(shared)) ++end;
    over_blocks(spans[shared].keys, [&](int64_t begin, int64_t rows) {
      for (int64_t t = begin; t < begin + rows; ++t) {
        for (size_t segment = shared + 1; segment < end; ++segment) {
          const float* grad = row(grad_before_, begins[segment] + before[shared] + t);
          kernels::add(row(keys.grad_k, spans[shared].key + t), grad, kv_);
          kernels::add(row(keys.grad_v, spans[shared].key + t), grad + kv_, kv_);
        }
      }
    });
  }
}

void Attention::reserve_ring(bool backward) {
  const int64_t rows = shards_.rows().shard;
  const auto reserve = [&](at::Tensor& buffer) {
    if (!buffer.defined() || buffer.size(0) != rows) buffer = at::empty({rows, 2 * kv_}, at::kFloat);
  };
  for (at::Tensor& buffer : ring_) reserve(buffer);
  if (!backward) return;
  for (at::Tensor& buffer : ring_sums_) reserve(buffer);
  reserve(ring_made_);
}

void Attention::pack(const Operands& o) {
  const int64_t tokens = shards_.attended_tokens();
  const at::Tensor kv = ring_[0].narrow(0, 0, tokens);
  kv.narrow(1, 0, kv_).copy_(o.rotated.narrow(0, 0, tokens).narrow(1, q_, kv_));
  kv.narrow(1, kv_, kv_).copy_(o.qkv.narrow(0, 0, tokens).narrow(1, q_ + kv_, kv_));
}

Attention::Keys Attention::keys_in(const at::Tensor& kv, const at::Tensor& grad) const {
  const auto half = [&](const at::Tensor& x, int64_t begin) { return x.defined() ? x.narrow(1, begin, kv_) : x; };
  return {half(kv, 0), half(kv, kv_), half(grad, 0), half(grad, kv_)};
}

void Attention::forward(const Operands& o) {
  parallel::Group* const ring = shards_.ring();
  if (ring == nullptr)
    return attend(o, {o.rotated.narrow(1, q_, kv_), o.qkv.narrow(1, q_ + kv_, kv_), {}, {}},
                  shards_.zigzag().spans(0, 0));
  reserve_ring(/*backward=*/false);
  pack(o);
  around_ring(*ring, ring_, [&](int64_t from, const at::Tensor& kv) {
    const Spans spans = shards_.zigzag().spans(ring->rank(), from);
    if (from == ring->rank()) attend(o, keys_in(kv), spans);
    else attend_others(o, keys_in(kv), spans);
  });
}

void Attention::backward(const Operands& o, const Grads& grads) {
  parallel::Group* const ring = shards_.ring();
  const at::Tensor k = o.rotated.narrow(1, q_, kv_), v = o.qkv.narrow(1, q_ + kv_, kv_);
  const at::Tensor grad_k = grads.rotated.narrow(1, q_, kv_), grad_v = grads.qkv.narrow(1, q_ + kv_, kv_);
  if (ring == nullptr)
    return attend_backward(o, {k, v, grad_k, grad_v}, shards_.zigzag().spans(0, 0), grads, /*causal=*/true);
  reserve_ring(/*backward=*/true);
  pack(o);
  const at::Tensor sums = around_ring(*ring, ring_, ring_sums_, ring_made_, [&](int64_t from, const at::Tensor& kv) {
    ring_made_.zero_();  // no query of this rank's sees some of the keys
    attend_backward(o, keys_in(kv, ring_made_), shards_.zigzag().spans(ring->rank(), from), grads,
                    /*causal=*/from == ring->rank());
  });
  const int64_t tokens = shards_.attended_tokens();
  const Keys own = keys_in({}, sums.narrow(0, 0, tokens));
  grad_k.narrow(0, 0, tokens).copy_(own.grad_k);
  grad_v.narrow(0, 0, tokens).copy_(own.grad_v);
}

}  // namespace tritonforge::train::cpu
