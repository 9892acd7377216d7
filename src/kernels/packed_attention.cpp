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

// Queries [begin, end) of one head, and the keys that they see together.
struct Block {
  int64_t begin, rows, keys, padded;
};
template <typename F>
void over_blocks(const AttentionHeads& a, const F& f) {
  for (int64_t begin = 0; begin < a.tokens; begin += kQueries) {
    const int64_t end = std::min(a.tokens, begin + kQueries), keys = a.causal ? end : a.keys;
    f(Block{begin, end - begin, keys, AttentionScratch::Buffers::stride(keys)});
  }
}

SoftmaxRows rows_of(const AttentionHeads& a, int64_t head, const Block& block, float* scores) {
  const int64_t statistic = head * a.statistic_stride + block.begin;
  return {.scores = scores,
          .stride = AttentionScratch::Buffers::stride(a.keys),
          .rows = block.rows,
          .length = a.causal ? block.begin + 1 : a.keys,
          .growth = a.causal ? 1 : 0,
          .padded = block.padded,
          .scale = a.scale,
          .max = a.max + statistic,
          .inverse = a.inverse + statistic};
}

}  // namespace

void attend(const AttentionHeads& a, AttentionScratch& scratch) {
  AttentionScratch::Buffers& s = scratch.buffers();
  const int64_t d = a.head_dim, stride = s.stride(a.keys);
  s.reserve(a.keys);
  s.keys_across.assign_transposed(a.k, a.k_stride, d, a.keys);
  s.values.assign(a.v, a.v_stride, a.keys, d);
  for (int64_t head = 0; head < a.group; ++head) {
    over_blocks(a, [&](const Block& block) {
      const int64_t row = block.begin * a.q_stride + head * d;
      multiply({a.q + row, a.q_stride, block.rows}, s.keys_across, s.scores.data(), stride, {.columns = block.keys});
      const SoftmaxRows rows = rows_of(a, head, block, s.scores.data());
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
  const int64_t d = a.head_dim, stride = s.stride(a.keys);
  s.reserve(a.keys);
  s.keys_across.assign_transposed(a.k, a.k_stride, d, a.keys);
  s.values_across.assign_transposed(a.v, a.v_stride, d, a.keys);
  s.keys.assign(a.k, a.k_stride, a.keys, d);
  for (int64_t t = 0; t < a.keys; ++t) {
    std::fill_n(grads.k + t * a.k_stride, d, 0.0f);
    std::fill_n(grads.v + t * a.v_stride, d, 0.0f);
  }
  for (int64_t head = 0; head < a.group; ++head) {
    over_blocks(a, [&](const Block& block) {
      const int64_t row = block.begin * a.q_stride + head * d;
      const float* out = a.out + block.begin * a.out_stride + head * d;
      const float* out_grad = grads.out + block.begin * a.out_stride + head * d;
      float *p = s.scores.data(), *ds = s.score_grads.data();
      multiply({a.q + row, a.q_stride, block.rows}, s.keys_across, p, stride, {.columns = block.keys});
      cpu_kernels().softmax_again(rows_of(a, head, block, p));
      multiply({out_grad, a.out_stride, block.rows}, s.values_across, ds, stride, {.columns = block.keys});
      dot_rows(out_grad, out, s.delta.data(), block.rows, d, a.out_stride);
      for (int64_t r = 0; r < block.rows; ++r)
        std::fill(ds + r * stride + block.keys, ds + r * stride + block.padded, 0.0f);
      cpu_kernels().softmax_backward(rows_of(a, head, block, ds), p, s.delta.data());
      multiply({ds, stride, block.rows}, s.keys, grads.q + row, a.q_stride, {.add = grads.add_q, .inner = block.keys});
      s.queries.assign(a.q + row, a.q_stride, block.rows, d);
      s.grads.assign(out_grad, a.out_stride, block.rows, d);
      multiply({ds, stride, block.keys, true}, s.queries, grads.k, a.k_stride, {.add = true});
      multiply({p, stride, block.keys, true}, s.grads, grads.v, a.v_stride, {.add = true});
    });
  }
}

}  // namespace tritonforge::kernels
