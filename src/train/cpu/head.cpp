#include "train/cpu/head.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu_kernels.h"
#include "kernels/fused_rows.h"

namespace tritonforge::train::cpu {
namespace {

// Rows of a thread at a time: their logits stay in the second cache where the vocabulary is small, and the head is read
// once for as many rows as a tile of the product has where it is not.
constexpr int64_t kLogits = 1 << 18, kFewest = 12;
int64_t rows_together(int64_t vocab) { return std::clamp<int64_t>(kLogits / vocab / kFewest * kFewest, kFewest, 96); }

constexpr double kNone = -std::numeric_limits<double>::infinity();  // of a target that is another rank's

}  // namespace

int64_t Head::target_of(int64_t i) const {
  const int64_t target = targets_.const_data_ptr<int64_t>()[i] - shards_.vocab_begin();
  return target >= 0 && target < model_.config().vocab_size ? target : -1;
}

float Head::factor_of(int64_t i) const { return factors_.defined() ? factors_.const_data_ptr<float>()[i] : 1.0f; }

Head::Statistics Head::merged(const Statistics& a, const Statistics& b, double f) {
  const double max = std::max(a.max, b.max), down_a = (a.max - max) * f, down_b = (b.max - max) * f,
               share_a = std::exp(down_a), share_b = std::exp(down_b);
  return {max, a.total * share_a + b.total * share_b,
          share_a * (a.weighted + a.total * down_a) + share_b * (b.weighted + b.total * down_b),
          std::max(a.target, b.target)};
}

void Head::logits(int64_t begin, int64_t rows, float* to, int64_t stride) const {
  kernels::multiply({row(normed_, begin), normed_.size(1), rows}, forward_, to, stride);
}

void Head::begin(const MicroBatch& batch, const at::Tensor& x) {
  const at::Tensor& weight = model_.lm_head();
  const int64_t n = shards_.shard_targets().count, vocab = weight.size(0), hidden = weight.size(1);
  if (!packed_forward_) forward_.assign_transposed(weight.data_ptr<float>(), hidden, hidden, vocab);
  packed_forward_ = true;
  x_ = x;
  targets_ = shards_.shard_targets().of(batch.targets);
  factors_ = shards_.shard_targets().of(batch.inverse_temperature);
  if (shards_.tensor_parallel()) {
    x_ = at::empty({shards_.rows().shard, hidden}, at::kFloat);
    shards_.own(x_).copy_(x.narrow(0, 0, shards_.rows().own));
    await(shards_.gather(x_, "hidden states"));
  }
  const auto fp32 = [](int64_t count) { return at::empty({count}, at::kFloat); };
  normed_ = at::empty({n, hidden}, at::kFloat);
  scale_ = fp32(n), max_ = fp32(n), inverse_total_ = fp32(n);
  scores_ = {fp32(n), fp32(n)};
  over_blocks(n, [&](int64_t begin, int64_t rows) {
    for (int64_t i = begin; i < begin + rows; ++i) {
      kernels::rms_forward(row(x_, row_of(i)), model_.final_norm().data_ptr<float>(), row(normed_, i), row(scale_, i),
                           1, hidden, static_cast<float>(model_.config().rms_norm_eps));
    }
  });
}

void Head::score(int64_t first, int64_t count, const at::Tensor& kept) {
  const int64_t vocab = model_.lm_head().size(0), together = rows_together(vocab);
  at::Tensor statistics = at::empty({count, 4}, at::kDouble);
  auto* of = reinterpret_cast<Statistics*>(statistics.mutable_data_ptr<double>());
  over_parts(parts_of(count, together), [&](int64_t part) {
    thread_local std::vector<float> memory;
    const int64_t begin = part * together, rows = std::min(together, count - begin);
    float* to = kept.defined() ? row(kept, begin) : nullptr;
    const int64_t stride = kept.defined() ? kept.stride(0) : vocab;
    if (to == nullptr) {
      memory.resize(static_cast<size_t>(together * vocab));
      to = memory.data();
    }
    logits(first + begin, rows, to, stride);
    const kernels::CpuKernels& cpu = kernels::cpu_kernels();
    for (int64_t i = begin; i < begin + rows; ++i) {
      const float* scores = to + (i - begin) * stride;
      float max;
      int64_t greedy;
      const int64_t target = target_of(first + i);
      cpu.argmax(scores, vocab, &max, &greedy);
      of[i].total = cpu.sum_exp_weighted(scores, vocab, max, factor_of(first + i), &of[i].weighted);
      of[i].max = max;
      of[i].target = target >= 0 ? static_cast<double>(scores[target]) : kNone;
    }
  });
  const at::Tensor all = shards_.gather_all(statistics, "statistics of the softmax");
  for (int64_t i = 0; i < count; ++i) {
    const float factor = factor_of(first + i);
    const auto* ranks = reinterpret_cast<const Statistics*>(all.const_data_ptr<double>());
    Statistics s = ranks[i];
    for (int64_t rank = 1; rank < all.size(0); ++rank) s = merged(s, ranks[rank * count + i], factor);
    *row(scores_.log_probs, first + i) = static_cast<float>((s.target - s.max) * factor - std::log(s.total));
    *row(scores_.entropy, first + i) = static_cast<float>(std::log(s.total) - s.weighted / s.total);
    *row(max_, first + i) = static_cast<float>(s.max);
    *row(inverse_total_, first + i) = static_cast<float>(1 / s.total);
  }
}

TargetScores Head::forward(const MicroBatch& batch, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  begin(batch, x);
  grad_x_.reset();
  score(0, shards_.shard_targets().count, {});
  return shards_.of_all_targets(scores_);
}

TargetScores Head::forward_backward(const MicroBatch& batch, const at::Tensor& x, const KnownGradients& known,
                                    const model::Model& gradients) {
  const at::NoGradGuard no_grad;
  begin(batch, x);
  begin_backward();
  over_chunks([&](int64_t first, int64_t count) {
    score(first, count, logits_);
    const TargetScores scores{scores_.log_probs.narrow(0, first, count), scores_.entropy.narrow(0, first, count)};
    const ScoreGradients of = known(shards_.shard_targets(first, count), scores);
    chunk_backward(first, count, of, /*again=*/false, gradients);
  });
  end_backward(gradients);
  return shards_.of_all_targets(scores_);
}

at::Tensor Head::backward(const ScoreGradients& of, const model::Model& gradients) {
  if (grad_x_.defined()) return std::exchange(grad_x_, {});  // made in the forward pass
  const at::NoGradGuard no_grad;
  begin_backward();
  over_chunks([&](int64_t first, int64_t count) {
    const TargetSlice chunk = shards_.shard_targets(first, count);
    chunk_backward(first, count, {chunk.of(of.log_probs), chunk.of(of.entropy)}, /*again=*/true, gradients);
  });
  end_backward(gradients);
  return std::exchange(grad_x_, {});
}

void Head::begin_backward() {
  const at::Tensor& weight = model_.lm_head();
  const int64_t n = shards_.shard_targets().count, vocab = weight.size(0), hidden = weight.size(1);
  if (!packed_backward_) backward_.assign(weight.data_ptr<float>(), hidden, vocab, hidden);
  packed_backward_ = true;
  grad_x_ = at::zeros({shards_.rows().shard, hidden}, at::kFloat);
  logits_ = apart(std::min(chunk_, n), vocab);
  grad_normed_ = shards_.tensor_parallel() ? at::empty({n, hidden}, at::kFloat) : at::Tensor();
}

void Head::norm_backward(int64_t i, const float* grad, float* sum) {
  kernels::rms_backward(grad, row(x_, row_of(i)), model_.final_norm().data_ptr<float>(), row(scale_, i),
                        row(grad_x_, row_of(i)), sum, 1, x_.size(1));
}

void Head::chunk_backward(int64_t first, int64_t chunk, const ScoreGradients& of, bool again,
                          const model::Model& gradients) {
  const at::Tensor& weight = model_.lm_head();
  const int64_t vocab = weight.size(0), hidden = weight.size(1), stride = logits_.stride(0),
                together = rows_together(vocab);
  const at::Tensor of_log_probs = of.log_probs.contiguous(),
                   of_entropy = of.entropy.defined() ? of.entropy.contiguous() : of.entropy;
  BlockSums norm;
  norm.start(parts_of(chunk, together), hidden);
  over_parts(parts_of(chunk, together), [&](int64_t part) {
    thread_local std::vector<float> memory;
    memory.resize(static_cast<size_t>(together * hidden));
    const int64_t begin = first + part * together, count = std::min(together, first + chunk - begin);
    float* grad = row(logits_, begin - first);
    if (again) logits(begin, count, grad, stride);
    for (int64_t i = begin; i < begin + count; ++i) {
      // d log p_t / d z_j = [j = t] - p_j;  d H / d z_j = -p_j (log p_j + H), log p_j = z_j - log(total)
      const float factor = factor_of(i), by_log_prob = *row(of_log_probs, i - first),
                  by_entropy = of_entropy.defined() ? *row(of_entropy, i - first) : 0.0f,
                  log_total = -std::log(*row(inverse_total_, i));
      float* scores = grad + (i - begin) * stride;
      kernels::cpu_kernels().logits_backward(scores, vocab, *row(max_, i), factor, *row(inverse_total_, i) * factor,
                                             -by_log_prob - by_entropy * (*row(scores_.entropy, i) - log_total),
                                             -by_entropy);
      if (const int64_t target = target_of(i); target >= 0) scores[target] += by_log_prob * factor;
    }
    float* normed = grad_normed_.defined() ? row(grad_normed_, begin) : memory.data();
    kernels::multiply({grad, stride, count}, backward_, normed, hidden);
    if (grad_normed_.defined()) return;
    for (int64_t i = begin; i < begin + count; ++i) norm_backward(i, normed + (i - begin) * hidden, norm.of(part));
  });
  if (!grad_normed_.defined()) norm.add_to(gradients.final_norm());
  add_weight_gradients({{.dy = logits_.data_ptr<float>(),
                         .x = row(normed_, first),
                         .dy_stride = stride,
                         .x_stride = hidden,
                         .tokens = chunk,
                         .weight = gradients.lm_head()}});
}

void Head::end_backward(const model::Model& gradients) {
  logits_.reset();
  if (!grad_normed_.defined()) return;
  shards_.sum_all(grad_normed_, "gradient of the head's input");
  const TokenShards::OwnTargets own = shards_.own_targets();
  BlockSums norm;
  norm.start(parts_of(own.count, kBlock), grad_normed_.size(1));
  over_blocks(own.count, [&](int64_t begin, int64_t rows) {
    for (int64_t i = own.first + begin; i < own.first + begin + rows; ++i)
      norm_backward(i, row(grad_normed_, i), norm.of(begin / kBlock));
  });
  norm.add_to(gradients.final_norm());
}

}  // namespace tritonforge::train::cpu
