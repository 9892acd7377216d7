#include "train/cpu/head.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

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

int64_t Head::row_of(const MicroBatch& batch, int64_t i) const {
  return batch.host_rows[static_cast<size_t>(shards_.shard_targets().begin + i)] - shards_.shard_begin();
}

int64_t Head::target_of(const MicroBatch& batch, int64_t i) const {
  const int64_t target = batch.targets.const_data_ptr<int64_t>()[shards_.shard_targets().begin + i] -
                         shards_.vocab_begin();
  return target >= 0 && target < model_.config().vocab_size ? target : -1;
}

float Head::factor_of(const MicroBatch& batch, int64_t i) const {
  return batch.inverse_temperature.defined()
             ? batch.inverse_temperature.const_data_ptr<float>()[shards_.shard_targets().begin + i]
             : 1.0f;
}

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

TargetScores Head::forward(const MicroBatch& batch, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const at::Tensor& weight = model_.lm_head();
  const int64_t n = shards_.shard_targets().count, vocab = weight.size(0), hidden = weight.size(1);
  if (!packed_forward_) forward_.assign_transposed(weight.data_ptr<float>(), hidden, hidden, vocab);
  packed_forward_ = true;
  x_ = x;
  if (shards_.tensor_parallel()) {
    x_ = at::empty({shards_.rows().shard, hidden}, at::kFloat);
    shards_.own(x_).copy_(x.narrow(0, 0, shards_.rows().own));
    await(shards_.gather(x_, "hidden states"));
  }
  const auto fp32 = [](int64_t count) { return at::empty({count}, at::kFloat); };
  normed_ = at::empty({n, hidden}, at::kFloat);
  scale_ = fp32(n), max_ = fp32(n), inverse_total_ = fp32(n), entropy_ = fp32(n);
  at::Tensor log_probs = fp32(n), statistics = at::empty({n, 4}, at::kDouble);
  auto* of = reinterpret_cast<Statistics*>(statistics.mutable_data_ptr<double>());
  const auto eps = static_cast<float>(model_.config().rms_norm_eps);
  const int64_t together = rows_together(vocab);
  over_parts(parts_of(n, together), [&](int64_t part) {
    thread_local std::vector<float> memory;
    memory.resize(static_cast<size_t>(together * vocab));
    const int64_t begin = part * together, count = std::min(together, n - begin);
    for (int64_t i = begin; i < begin + count; ++i) {
      kernels::rms_forward(row(x_, row_of(batch, i)), model_.final_norm().data_ptr<float>(), row(normed_, i),
                           row(scale_, i), 1, hidden, eps);
    }
    logits(begin, count, memory.data(), vocab);
    const kernels::CpuKernels& cpu = kernels::cpu_kernels();
    for (int64_t i = begin; i < begin + count; ++i) {
      const float* scores = memory.data() + (i - begin) * vocab;
      float max;
      int64_t greedy;
      const int64_t target = target_of(batch, i);
      cpu.argmax(scores, vocab, &max, &greedy);
      of[i].total = cpu.sum_exp_weighted(scores, vocab, max, factor_of(batch, i), &of[i].weighted);
      of[i].max = max;
      of[i].target = target >= 0 ? static_cast<double>(scores[target]) : kNone;
    }
  });
  const at::Tensor all = shards_.gather_all(statistics, "statistics of the softmax");
  for (int64_t i = 0; i < n; ++i) {
    const float factor = factor_of(batch, i);
    const auto* ranks = reinterpret_cast<const Statistics*>(all.const_data_ptr<double>());
    Statistics s = ranks[i];
    for (int64_t rank = 1; rank < all.size(0); ++rank) s = merged(s, ranks[rank * n + i], factor);
    *row(log_probs, i) = static_cast<float>((s.target - s.max) * factor - std::log(s.total));
    *row(entropy_, i) = static_cast<float>(std::log(s.total) - s.weighted / s.total);
    *row(max_, i) = static_cast<float>(s.max);
    *row(inverse_total_, i) = static_cast<float>(1 / s.total);
  }
  return {shards_.of_all_targets(log_probs, "log_probs"), shards_.of_all_targets(entropy_, "entropy")};
}

at::Tensor Head::backward(const MicroBatch& batch, const at::Tensor& grad_log_probs, const at::Tensor& grad_entropy,
                          const model::Model& gradients) {
  const at::NoGradGuard no_grad;
  const at::Tensor& weight = model_.lm_head();
  const int64_t vocab = weight.size(0), hidden = weight.size(1), from = shards_.shard_targets().begin,
                n = shards_.shard_targets().count;
  if (!packed_backward_) backward_.assign(weight.data_ptr<float>(), hidden, vocab, hidden);
  packed_backward_ = true;
  const float* final_norm = model_.final_norm().data_ptr<float>();
  at::Tensor grad_x = at::zeros({shards_.rows().shard, hidden}, at::kFloat);
  const at::Tensor grad_logits = apart(std::min(chunk_, n), vocab);
  const int64_t stride = grad_logits.stride(0);
  // Of the targets' rows after the norm, of which a tensor-parallel rank has what its rows of the vocabulary give.
  const at::Tensor grad_normed = shards_.tensor_parallel() ? at::empty({n, hidden}, at::kFloat) : at::Tensor();
  BlockSums norm;
  const int64_t together = rows_together(vocab);
  const auto norm_backward = [&](int64_t i, const float* grad, float* sum) {
    kernels::rms_backward(grad, row(x_, row_of(batch, i)), final_norm, row(scale_, i), row(grad_x, row_of(batch, i)),
                          sum, 1, hidden);
  };
  for (int64_t first = 0; first < n; first += chunk_) {
    const int64_t chunk = std::min(chunk_, n - first);
    norm.start(parts_of(chunk, together), hidden);
    over_parts(parts_of(chunk, together), [&](int64_t part) {
      thread_local std::vector<float> memory;
      memory.resize(static_cast<size_t>(together * hidden));
      const int64_t begin = first + part * together, count = std::min(together, first + chunk - begin);
      float* grad = row(grad_logits, begin - first);
      logits(begin, count, grad, stride);
      for (int64_t i = begin; i < begin + count; ++i) {
        // d log p_t / d z_j = [j = t] - p_j;  d H / d z_j = -p_j (log p_j + H), log p_j = z_j - log(total)
        const float factor = factor_of(batch, i), of_log_prob = *row(grad_log_probs, from + i),
                    of_entropy = grad_entropy.defined() ? *row(grad_entropy, from + i) : 0.0f,
                    log_total = -std::log(*row(inverse_total_, i));
        float* scores = grad + (i - begin) * stride;
        kernels::cpu_kernels().logits_backward(scores, vocab, *row(max_, i), factor, *row(inverse_total_, i) * factor,
                                               -of_log_prob - of_entropy * (*row(entropy_, i) - log_total),
                                               -of_entropy);
        if (const int64_t target = target_of(batch, i); target >= 0) scores[target] += of_log_prob * factor;
      }
      float* normed = grad_normed.defined() ? row(grad_normed, begin) : memory.data();
      kernels::multiply({grad, stride, count}, backward_, normed, hidden);
      if (grad_normed.defined()) return;
      for (int64_t i = begin; i < begin + count; ++i) norm_backward(i, normed + (i - begin) * hidden, norm.of(part));
    });
    if (!grad_normed.defined()) norm.add_to(gradients.final_norm());
    add_weight_gradients({{.dy = grad_logits.data_ptr<float>(),
                           .x = row(normed_, first),
                           .dy_stride = stride,
                           .x_stride = hidden,
                           .tokens = chunk,
                           .weight = gradients.lm_head()}});
  }
  if (!grad_normed.defined()) return grad_x;
  shards_.sum_all(grad_normed, "gradient of the head's input");
  const auto [own, count] = shards_.own_targets();
  const int64_t before = own - from, targets = count;
  norm.start(parts_of(targets, kBlock), hidden);
  over_blocks(targets, [&](int64_t begin, int64_t rows) {
    for (int64_t i = before + begin; i < before + begin + rows; ++i)
      norm_backward(i, row(grad_normed, i), norm.of(begin / kBlock));
  });
  norm.add_to(gradients.final_norm());
  return grad_x;
}

}  // namespace tritonforge::train::cpu
