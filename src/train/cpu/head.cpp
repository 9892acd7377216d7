#include "train/cpu/head.h"

#include <cmath>

#include "kernels/cpu_kernels.h"
#include "kernels/fused_rows.h"

namespace tritonforge::train::cpu {
namespace {

// Rows of a thread at a time: their logits stay in the second cache where the vocabulary is small, and the head is read
// once for as many rows as a tile of the product has where it is not.
constexpr int64_t kLogits = 1 << 18, kFewest = 12;
int64_t rows_together(int64_t vocab) { return std::clamp<int64_t>(kLogits / vocab / kFewest * kFewest, kFewest, 96); }

float factor_of(const MicroBatch& batch, int64_t i) {
  return batch.inverse_temperature.defined() ? batch.inverse_temperature.const_data_ptr<float>()[i] : 1.0f;
}

}  // namespace

void Head::logits(int64_t begin, int64_t rows, float* to, int64_t stride) const {
  kernels::multiply({row(normed_, begin), normed_.size(1), rows}, forward_, to, stride);
}

TargetScores Head::forward(const MicroBatch& batch, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const at::Tensor& weight = model_.lm_head();
  const int64_t n = batch.target_count, vocab = weight.size(0), hidden = weight.size(1);
  if (!packed_forward_) forward_.assign_transposed(weight.data_ptr<float>(), hidden, hidden, vocab);
  packed_forward_ = true;
  const auto fp32 = [](int64_t count) { return at::empty({count}, at::kFloat); };
  normed_ = at::empty({n, hidden}, at::kFloat);
  scale_ = fp32(n), max_ = fp32(n), inverse_total_ = fp32(n), entropy_ = fp32(n);
  at::Tensor log_probs = fp32(n);
  const auto *rows = batch.rows.const_data_ptr<int64_t>(), *targets = batch.targets.const_data_ptr<int64_t>();
  const auto eps = static_cast<float>(model_.config().rms_norm_eps);
  const int64_t together = rows_together(vocab);
  over_parts(parts_of(n, together), [&](int64_t part) {
    thread_local std::vector<float> memory;
    memory.resize(static_cast<size_t>(together * vocab));
    const int64_t begin = part * together, count = std::min(together, n - begin);
    for (int64_t i = begin; i < begin + count; ++i) {
      kernels::rms_forward(row(x, rows[i]), model_.final_norm().data_ptr<float>(), row(normed_, i), row(scale_, i), 1,
                           hidden, eps);
    }
    logits(begin, count, memory.data(), vocab);
    const kernels::CpuKernels& cpu = kernels::cpu_kernels();
    for (int64_t i = begin; i < begin + count; ++i) {
      const float* scores = memory.data() + (i - begin) * vocab;
      const float factor = factor_of(batch, i);
      float max;
      int64_t greedy;
      double weighted;
      cpu.argmax(scores, vocab, &max, &greedy);
      const double total = cpu.sum_exp_weighted(scores, vocab, max, factor, &weighted);
      *row(log_probs,
           i) = static_cast<float>((static_cast<double>(scores[targets[i]]) - max) * factor - std::log(total));
      *row(entropy_, i) = static_cast<float>(std::log(total) - weighted / total);
      *row(max_, i) = max;
      *row(inverse_total_, i) = static_cast<float>(1 / total);
    }
  });
  return {log_probs, entropy_};
}

at::Tensor Head::backward(const MicroBatch& batch, const at::Tensor& x, const at::Tensor& grad_log_probs,
                          const at::Tensor& grad_entropy, const model::Model& gradients) {
  const at::NoGradGuard no_grad;
  const at::Tensor& weight = model_.lm_head();
  const int64_t n = batch.target_count, vocab = weight.size(0), hidden = weight.size(1);
  if (!packed_backward_) backward_.assign(weight.data_ptr<float>(), hidden, vocab, hidden);
  packed_backward_ = true;
  const auto *rows = batch.rows.const_data_ptr<int64_t>(), *targets = batch.targets.const_data_ptr<int64_t>();
  const float* final_norm = model_.final_norm().data_ptr<float>();
  at::Tensor grad_x = at::zeros({batch.tokens, hidden}, at::kFloat);
  const at::Tensor grad_logits = apart(std::min(chunk_, n), vocab);
  const int64_t stride = grad_logits.stride(0);
  BlockSums norm;
  const int64_t together = rows_together(vocab);
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
        const float factor = factor_of(batch, i), of_log_prob = *row(grad_log_probs, i),
                    of_entropy = grad_entropy.defined() ? *row(grad_entropy, i) : 0.0f,
                    log_total = -std::log(*row(inverse_total_, i));
        float* scores = grad + (i - begin) * stride;
        kernels::cpu_kernels().logits_backward(scores, vocab, *row(max_, i), factor, *row(inverse_total_, i) * factor,
                                               -of_log_prob - of_entropy * (*row(entropy_, i) - log_total),
                                               -of_entropy);
        scores[targets[i]] += of_log_prob * factor;
      }
      kernels::multiply({grad, stride, count}, backward_, memory.data(), hidden);
      for (int64_t i = begin; i < begin + count; ++i) {
        kernels::rms_backward(memory.data() + (i - begin) * hidden, row(x, rows[i]), final_norm, row(scale_, i),
                              row(grad_x, rows[i]), norm.of(part), 1, hidden);
      }
    });
    norm.add_to(gradients.final_norm());
    add_weight_gradients({{.dy = grad_logits.data_ptr<float>(),
                           .x = row(normed_, first),
                           .dy_stride = stride,
                           .x_stride = hidden,
                           .tokens = chunk,
                           .weight = gradients.lm_head()}});
  }
  return grad_x;
}

}  // namespace tritonforge::train::cpu
