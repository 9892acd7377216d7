#include "kernels/packed_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "kernels/fused_rows.h"
#include "kernels/multiply.h"

namespace tritonforge::kernels {

// A block of queries' scores against all keys that they see stays in the second cache.
constexpr int64_t kQueries = 48;

struct AttentionScratch::Buffers {
  Panels keys, values, keys_across, values_across, queries, grads;
  std::vector<float> scores, score_grads, delta;
  std::vector<float> joined_k, joined_v, joined_k_grad, joined_v_grad;  // [keys, head_dim] where they lie apart

  // Rows of scores are whole vectors; what lies beyond a row's keys is zeroed by the softmax.
  static int64_t stride(int64_t tokens) { return (tokens + 15) / 16 * 16; }
  void reserve(int64_t tokens) {
    const auto floats = static_cast<size_t>(kQueries * stride(tokens));
    if (scores.size() < floats) scores.resize(floats);
    if (score_grads.size() < floats) score_grads.resize(floats);
    delta.resize(kQueries);
  }
};

AttentionScratch::AttentionScratch() : buffers_(std::make_unique<Buffers>()) {}
AttentionScratch::~AttentionScratch() = default;

namespace {

// Rows of head_dim numbers.
template <typename Float>
struct Rows {
  Float* data;
  int64_t stride;
};

int64_t tokens_before(const AttentionHeads& a) {
  int64_t tokens = 0;
  for (const KeyRun& run : a.before) tokens += run.tokens;
  return tokens;
}

void copy_rows(const Rows<const float>& from, int64_t count, int64_t width, float* to, int64_t to_stride) {
  for (int64_t t = 0; t < count; ++t) std::copy_n(from.data + t * from.stride, width, to + t * to_stride);
}

float* room(std::vector<float>& buffer, int64_t floats) {
  if (std::ssize(buffer) < floats) buffer.resize(static_cast<size_t>(floats));
  return buffer.data();
}

// Of all keys, those before included, or of their values: where they lie, or copied side by side.
Rows<const float> joined(const AttentionHeads& a, const float* KeyRun::* run, Rows<const float> own,
                         std::vector<float>& buffer) {
  if (a.before.empty()) return own;
  float* next = room(buffer, (tokens_before(a) + a.keys) * a.head_dim);
  const float* begin = next;
  for (const KeyRun& each : a.before) {
    copy_rows({each.*run, own.stride}, each.tokens, a.head_dim, next, a.head_dim);
    next += each.tokens * a.head_dim;
  }
  copy_rows(own, a.keys, a.head_dim, next, a.head_dim);
  return {begin, a.head_dim};
}

// Queries [begin, end) of one head, and the keys that they see together.
struct Block {
  int64_t begin, rows, keys, padded;
};
template <typename F>
void over_blocks(const AttentionHeads& a, int64_t before, const F& f) {
  for (int64_t begin = 0; begin < a.tokens; begin += kQueries) {
    const int64_t end = std::min(a.tokens, begin + kQueries), keys = a.causal ? before + end : a.keys;
    f(Block{begin, end - begin, keys, AttentionScratch::Buffers::stride(keys)});
  }
}

SoftmaxRows rows_of(const AttentionHeads& a, int64_t head, const Block& block, float* scores, int64_t stride) {
  const int64_t statistic = head * a.statistic_stride + block.begin;
  return {.scores = scores,
          .stride = stride,
          .rows = block.rows,
          .length = a.causal ? block.keys - block.rows + 1 : a.keys,
          .growth = a.causal ? 1 : 0,
          .padded = block.padded,
          .scale = a.scale,
          .max = a.max + statistic,
          .inverse = a.inverse + statistic};
}

}  // namespace

void attend(const AttentionHeads& a, AttentionScratch& scratch) {
  AttentionScratch::Buffers& s = scratch.buffers();
  const int64_t d = a.head_dim, before = tokens_before(a), all = before + a.keys, stride = s.stride(all);
  s.reserve(all);
  const auto k = joined(a, &KeyRun::k, {a.k, a.k_stride}, s.joined_k),
             v = joined(a, &KeyRun::v, {a.v, a.v_stride}, s.joined_v);
  s.keys_across.assign_transposed(k.data, k.stride, d, all);
  s.values.assign(v.data, v.stride, all, d);
  for (int64_t head = 0; head < a.group; ++head) {
    over_blocks(a, before, [&](const Block& block) {
      const int64_t row = block.begin * a.q_stride + head * d;
      multiply({a.q + row, a.q_stride, block.rows}, s.keys_across, s.scores.data(), stride, {.columns = block.keys});
      const SoftmaxRows rows = rows_of(a, head, block, s.scores.data(), stride);
      cpu_kernels().softmax_forward(rows);
      float* out = a.out + block.begin * a.out_stride + head * d;
      multiply({s.scores.data(), stride, block.rows}, s.values, out, a.out_stride, {.inner = block.keys});
      scale_rows(out, rows.inverse, block.rows, d, a.out_stride);
    });
  }
}

void merge(const AttentionHeads& whole, const AttentionHeads& part) {
  for (int64_t head = 0; head < whole.group; ++head) {
    for (int64_t t = 0; t < whole.tokens; ++t) {
      float *max = whole.max + head * whole.statistic_stride + t,
            *inverse = whole.inverse + head * whole.statistic_stride + t;
      const int64_t statistic = head * part.statistic_stride + t;
      const float larger = std::max(*max, part.max[statistic]), mine = std::exp(*max - larger) / *inverse,
                  other = std::exp(part.max[statistic] - larger) / part.inverse[statistic], total = mine + other;
      float* out = whole.out + t * whole.out_stride + head * whole.head_dim;
      const float* added = part.out + t * part.out_stride + head * part.head_dim;
      for (int64_t i = 0; i < whole.head_dim; ++i) out[i] = (out[i] * mine + added[i] * other) / total;
      *max = larger;
      *inverse = 1 / total;
    }
  }
}

// With p = softmax(scale q k^T) and o = p v: dv = p^T do, dp = do v^T, ds = p (dp - sum(do o)) scale, dq = ds k,
// dk = ds^T q (Dao et al. 2022, appendix B.2).
void attend_backward(const AttentionHeads& a, const AttentionGrads& grads, AttentionScratch& scratch) {
  AttentionScratch::Buffers& s = scratch.buffers();
  const int64_t d = a.head_dim, before = tokens_before(a), all = before + a.keys, stride = s.stride(all);
  s.reserve(all);
  const auto k = joined(a, &KeyRun::k, {a.k, a.k_stride}, s.joined_k),
             v = joined(a, &KeyRun::v, {a.v, a.v_stride}, s.joined_v);
  s.keys_across.assign_transposed(k.data, k.stride, d, all);
  s.values_across.assign_transposed(v.data, v.stride, d, all);
  s.keys.assign(k.data, k.stride, all, d);
  Rows<float> k_grad{grads.k, a.k_stride}, v_grad{grads.v, a.v_stride};
  if (before > 0) {
    k_grad = {room(s.joined_k_grad, all * d), d};
    v_grad = {room(s.joined_v_grad, all * d), d};
  }
  for (int64_t t = 0; t < all; ++t) {
    std::fill_n(k_grad.data + t * k_grad.stride, d, 0.0f);
    std::fill_n(v_grad.data + t * v_grad.stride, d, 0.0f);
  }
  for (int64_t head = 0; head < a.group; ++head) {
    over_blocks(a, before, [&](const Block& block) {
      const int64_t row = block.begin * a.q_stride + head * d;
      const float* out = a.out + block.begin * a.out_stride + head * d;
      const float* out_grad = grads.out + block.begin * a.out_stride + head * d;
      float *p = s.scores.data(), *ds = s.score_grads.data();
      multiply({a.q + row, a.q_stride, block.rows}, s.keys_across, p, stride, {.columns = block.keys});
      cpu_kernels().softmax_again(rows_of(a, head, block, p, stride));
      multiply({out_grad, a.out_stride, block.rows}, s.values_across, ds, stride, {.columns = block.keys});
      dot_rows(out_grad, out, s.delta.data(), block.rows, d, a.out_stride);
      for (int64_t r = 0; r < block.rows; ++r)
        std::fill(ds + r * stride + block.keys, ds + r * stride + block.padded, 0.0f);
      cpu_kernels().softmax_backward(rows_of(a, head, block, ds, stride), p, s.delta.data());
      multiply({ds, stride, block.rows}, s.keys, grads.q + row, a.q_stride, {.add = grads.add_q, .inner = block.keys});
      s.queries.assign(a.q + row, a.q_stride, block.rows, d);
      s.grads.assign(out_grad, a.out_stride, block.rows, d);
      multiply({ds, stride, block.keys, true}, s.queries, k_grad.data, k_grad.stride, {.add = true});
      multiply({p, stride, block.keys, true}, s.grads, v_grad.data, v_grad.stride, {.add = true});
    });
  }
  if (before == 0) return;
  copy_rows({k_grad.data, d}, before, d, grads.before_k, grads.before_stride);
  copy_rows({v_grad.data, d}, before, d, grads.before_v, grads.before_stride);
  copy_rows({k_grad.data + before * d, d}, a.tokens, d, grads.k, a.k_stride);
  copy_rows({v_grad.data + before * d, d}, a.tokens, d, grads.v, a.v_stride);
}

}  // namespace tritonforge::kernels
