#include "train/gpu/head.h"

#include <algorithm>

namespace tritonforge::train::gpu {
namespace {

// Products want their inner dimension in multiples of 8, and a chunk's rows are that of the weight's gradient.
int64_t padded(int64_t rows) { return (rows + 7) / 8 * 8; }

const float* floats(const at::Tensor& tensor, int64_t begin = 0) {
  return tensor.defined() ? tensor.const_data_ptr<float>() + begin : nullptr;
}

}  // namespace

Head::Head(const model::Model& model, int64_t chunk, Products& products)
    : api_(tritonforge::gpu::open_cuda_library()), model_(model), chunk_(padded(chunk)), products_(products) {}

int64_t Head::rows_of(int64_t index) const { return std::min(chunk_, count_ - begin_of(index)); }

int64_t Head::bytes(const model::ModelConfig& shape, int64_t targets, int64_t chunk, bool train) {
  return padded(targets) * shape.hidden_size * 2 * (train ? 3 : 2) +
         std::min(padded(chunk), padded(targets)) * shape.vocab_size * 4;
}

void Head::reserve(int64_t targets, bool train) {
  count_ = targets;
  kept_ = -1;
  const auto options = at::TensorOptions().dtype(at::kBFloat16).device(model_.device());
  const auto fp32 = options.dtype(at::kFloat);
  const int64_t hidden = model_.config().hidden_size;
  if (train && (!grad_.defined() || grad_.size(0) < targets))
    grad_ = at::empty({padded(std::max(targets, capacity_)), hidden}, options);
  if (targets <= capacity_) return;
  capacity_ = padded(targets);
  x_ = at::empty({capacity_, hidden}, options);
  normed_ = at::empty({capacity_, hidden}, options);
  logits_ = at::empty({std::min(chunk_, capacity_), model_.config().vocab_size}, fp32);
  maximum_ = at::empty({capacity_}, fp32);
  inverse_total_ = at::empty({capacity_}, fp32);
  partials_ = at::empty({static_cast<int64_t>(api_.row_sums_bytes(hidden))}, options.dtype(at::kByte));
}

at::Tensor Head::project(int64_t index) {
  const int64_t rows = padded(rows_of(index));
  const at::Tensor logits = logits_.narrow(0, 0, rows);
  if (kept_ != index) products_.forward(logits, normed_.narrow(0, begin_of(index), rows), model_.lm_head());
  kept_ = index;
  return logits;
}

TargetScores Head::forward(const MicroBatch& batch, const at::Tensor& x, const at::Tensor& known,
                           Gradients* gradients) {
  reserve(batch.target_count, gradients != nullptr);
  added_ = false;
  done_ = known.defined();
  const model::ModelConfig& c = model_.config();
  const auto fp32 = x_.options().dtype(at::kFloat);
  rows_ = batch.rows.to(at::kInt);
  targets_ = batch.targets.to(at::kInt);
  inverse_temperature_ = batch.inverse_temperature;
  scores_ = {at::empty({count_}, fp32), at::empty({count_}, fp32)};
  x_.narrow(0, count_, padded(count_) - count_).zero_();
  check_cuda(api_.gather_rows(bits(x_), bits(x), rows_.const_data_ptr<int32_t>(), count_, c.hidden_size, kStream));
  check_cuda(api_.rms_norm(bits(normed_), bits(x_), bits(model_.final_norm()), padded(count_), c.hidden_size,
                           static_cast<float>(c.rms_norm_eps), kStream));
  for (int64_t index = 0; begin_of(index) < count_; ++index) {
    const int64_t begin = begin_of(index);
    const at::Tensor logits = project(index);
    const tritonforge::gpu::HeadScoresArgs args{.logits = floats(logits),
                                                .targets = targets_.const_data_ptr<int32_t>() + begin,
                                                .inverse_temperature = floats(inverse_temperature_, begin),
                                                .log_probs = scores_.log_probs.mutable_data_ptr<float>() + begin,
                                                .entropy = scores_.entropy.mutable_data_ptr<float>() + begin,
                                                .maximum = maximum_.mutable_data_ptr<float>() + begin,
                                                .inverse_total = inverse_total_.mutable_data_ptr<float>() + begin,
                                                .rows = rows_of(index),
                                                .vocab = c.vocab_size};
    check_cuda(api_.head_scores(&args, kStream));
    if (done_) chunk_backward(index, known, {}, *gradients);
  }
  return {scores_.log_probs.clone(), scores_.entropy.clone()};
}

void Head::chunk_backward(int64_t index, const at::Tensor& grad_log_probs, const at::Tensor& grad_entropy,
                          Gradients& gradients) {
  const model::ModelConfig& c = model_.config();
  const int64_t begin = begin_of(index), rows = rows_of(index);
  const at::Tensor logits = project(index);
  kept_ = -1;
  const tritonforge::gpu::HeadGradientArgs args{.logits = logits.mutable_data_ptr<float>(),
                                                .targets = targets_.const_data_ptr<int32_t>() + begin,
                                                .inverse_temperature = floats(inverse_temperature_, begin),
                                                .entropy = floats(scores_.entropy, begin),
                                                .maximum = floats(maximum_, begin),
                                                .inverse_total = floats(inverse_total_, begin),
                                                .grad_log_probs = floats(grad_log_probs, begin),
                                                .grad_entropy = floats(grad_entropy, begin),
                                                .rows = rows,
                                                .vocab = c.vocab_size};
  check_cuda(api_.head_gradient(&args, kStream));
  const at::Tensor grad_logits = logits.view(at::kBFloat16).narrow(1, 0, c.vocab_size);
  grad_logits.narrow(0, rows, logits.size(0) - rows).zero_();
  const auto chunk = [&](const at::Tensor& of) { return of.narrow(0, begin, logits.size(0)); };
  products_.input_gradient(chunk(grad_), grad_logits, model_.lm_head());
  products_.weight_gradient(gradients.sums.lm_head(), grad_logits, chunk(normed_), added_ || !gradients.empty);
  added_ = true;
}

void Head::backward(const MicroBatch& batch, const at::Tensor& grad_log_probs, const at::Tensor& grad_entropy,
                    const at::Tensor& grad, Gradients& gradients) {
  const model::ModelConfig& c = model_.config();
  // From the last one on, whose logits are still there.
  for (int64_t index = (count_ - 1) / chunk_; index >= 0 && !done_; --index)
    chunk_backward(index, grad_log_probs, grad_entropy, gradients);
  const tritonforge::gpu::RmsNormBackwardArgs norm{.dx = bits(grad_),
                                                   .normed = nullptr,
                                                   .x = bits(x_),
                                                   .w = bits(model_.final_norm()),
                                                   .dy = bits(grad_),
                                                   .residual = nullptr,
                                                   .partials = static_cast<float*>(partials_.mutable_data_ptr()),
                                                   .dw = gradient_of(gradients.sums.final_norm(), !gradients.empty),
                                                   .rows = count_,
                                                   .d = c.hidden_size,
                                                   .eps = static_cast<float>(c.rms_norm_eps)};
  check_cuda(api_.rms_norm_backward(&norm, kStream));
  check_cuda(api_.scatter_rows(bits(grad), bits(grad_), rows_.const_data_ptr<int32_t>(), batch.target_count,
                               c.hidden_size, kStream));
}

}  // namespace tritonforge::train::gpu
