#include "train/gpu/head.h"

#include <algorithm>
#include <cmath>

#include "train/to_device.h"

namespace tritonforge::train::gpu {
namespace {

// Products want their inner dimension in multiples of 8, and a chunk's rows are that of the weight's gradient.
int64_t padded(int64_t rows) { return (rows + 7) / 8 * 8; }

const float* floats(const at::Tensor& tensor, int64_t begin = 0) {
  return tensor.defined() ? tensor.const_data_ptr<float>() + begin : nullptr;
}

}  // namespace

Head::Head(const model::Model& model, int64_t chunk, Products& products, const TokenShards& shards)
    : api_(tritonforge::gpu::open_cuda_library()),
      model_(model),
      chunk_(padded(chunk)),
      products_(products),
      shards_(shards) {}

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

void Head::merge(int64_t index) {
  if (!shards_.tensor_parallel()) return;
  const auto chunk = [&](const at::Tensor& of) { return of.narrow(0, begin_of(index), rows_of(index)); };
  at::Tensor maximum = chunk(maximum_), inverse = chunk(inverse_total_), log_probs = chunk(scores_.log_probs),
             entropy = chunk(scores_.entropy);
  // With z = (logit - maximum) f: the logarithm of the sum of e^z, the mean of z, the target's z.
  const at::Tensor log_total = inverse.log().neg_();
  const at::Tensor of_target = (log_probs + log_total).masked_fill_(chunk(targets_).lt(0), -INFINITY);
  const at::Tensor ranks = shards_.gather_all(at::stack({maximum, log_total, log_total - entropy, of_target}),
                                              "scores of the vocabulary");
  const at::Tensor highest = ranks.select(1, 0).amax(0);
  at::Tensor down = ranks.select(1, 0) - highest;
  if (inverse_temperature_.defined()) down.mul_(chunk(inverse_temperature_));
  const at::Tensor share = (ranks.select(1, 1) + down).exp_(), total = share.sum(0), log_of_all = total.log();
  maximum.copy_(highest);
  inverse.copy_(total.reciprocal());
  log_probs.copy_((ranks.select(1, 3) + down).amax(0) - log_of_all);
  entropy.copy_(log_of_all - (share * (ranks.select(1, 2) + down)).sum(0) / total);
}

TargetScores Head::forward(const MicroBatch& batch, const at::Tensor& x, const KnownGradients& known,
                           Gradients* gradients) {
  const TargetSlice& targets = shards_.shard_targets();
  reserve(targets.count, gradients != nullptr);
  added_ = false;
  done_ = known != nullptr;
  const model::ModelConfig& c = model_.config();
  const auto fp32 = x_.options().dtype(at::kFloat);
  rows_ = to_device(std::vector<int32_t>(shards_.target_rows().begin(), shards_.target_rows().end()), x.device());
  targets_ = targets.of(batch.targets).sub(shards_.vocab_begin());
  targets_.masked_fill_(targets_.lt(0).logical_or_(targets_.ge(c.vocab_size)), -1);
  targets_ = targets_.to(at::kInt);
  mine_ = targets_.clamp_min(0);
  inverse_temperature_ = targets.of(batch.inverse_temperature);
  if (inverse_temperature_.defined()) inverse_temperature_ = inverse_temperature_.contiguous();
  scores_ = {at::empty({count_}, fp32), at::empty({count_}, fp32)};
  at::Tensor shard = x;
  if (shards_.tensor_parallel()) {
    shard = at::empty({shards_.rows().shard, c.hidden_size}, x.options());
    shards_.own(shard).copy_(x);
    await(shards_.gather(shard, "hidden states"));
  }
  x_.narrow(0, count_, padded(count_) - count_).zero_();
  check_cuda(api_.gather_rows(bits(x_), bits(shard), rows_.const_data_ptr<int32_t>(), count_, c.hidden_size, kStream));
  check_cuda(api_.rms_norm(bits(normed_), bits(x_), bits(model_.final_norm()), padded(count_), c.hidden_size,
                           static_cast<float>(c.rms_norm_eps), kStream));
  for (int64_t index = 0; begin_of(index) < count_; ++index) {
    const int64_t begin = begin_of(index);
    const at::Tensor logits = project(index);
    const tritonforge::gpu::HeadScoresArgs args{.logits = floats(logits),
                                                .targets = mine_.const_data_ptr<int32_t>() + begin,
                                                .inverse_temperature = floats(inverse_temperature_, begin),
                                                .log_probs = scores_.log_probs.mutable_data_ptr<float>() + begin,
                                                .entropy = scores_.entropy.mutable_data_ptr<float>() + begin,
                                                .maximum = maximum_.mutable_data_ptr<float>() + begin,
                                                .inverse_total = inverse_total_.mutable_data_ptr<float>() + begin,
                                                .rows = rows_of(index),
                                                .vocab = c.vocab_size};
    check_cuda(api_.head_scores(&args, kStream));
    merge(index);
    if (!done_) continue;
    const TargetScores scores{scores_.log_probs.narrow(0, begin, rows_of(index)),
                              scores_.entropy.narrow(0, begin, rows_of(index))};
    chunk_backward(index, known(shards_.shard_targets(begin, rows_of(index)), scores), *gradients);
  }
  return shards_.of_all_targets({scores_.log_probs.clone(), scores_.entropy.clone()});
}

void Head::chunk_backward(int64_t index, const ScoreGradients& of, Gradients& gradients) {
  const model::ModelConfig& c = model_.config();
  const int64_t begin = begin_of(index), rows = rows_of(index);
  const at::Tensor of_log_probs = of.log_probs.contiguous(),
                   of_entropy = of.entropy.defined() ? of.entropy.contiguous() : of.entropy, logits = project(index);
  kept_ = -1;
  const tritonforge::gpu::HeadGradientArgs args{.logits = logits.mutable_data_ptr<float>(),
                                                .targets = targets_.const_data_ptr<int32_t>() + begin,
                                                .inverse_temperature = floats(inverse_temperature_, begin),
                                                .entropy = floats(scores_.entropy, begin),
                                                .maximum = floats(maximum_, begin),
                                                .inverse_total = floats(inverse_total_, begin),
                                                .grad_log_probs = floats(of_log_probs),
                                                .grad_entropy = floats(of_entropy),
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

void Head::backward(const ScoreGradients& of, const at::Tensor& grad, Gradients& gradients) {
  const model::ModelConfig& c = model_.config();
  // From the last one on, whose logits are still there.
  for (int64_t index = count_ > 0 ? (count_ - 1) / chunk_ : -1; index >= 0 && !done_; --index) {
    const TargetSlice chunk = shards_.shard_targets(begin_of(index), rows_of(index));
    chunk_backward(index, {chunk.of(of.log_probs), chunk.of(of.entropy)}, gradients);
  }
  shards_.sum_all(grad_.narrow(0, 0, count_), "gradient of the head's input");
  const auto [begin, own] = shards_.own_targets();
  if (gradients.empty && !added_) gradients.sums.lm_head().zero_();
  if (gradients.empty && own == 0) gradients.sums.final_norm().zero_();
  if (own == 0) return;
  const at::Tensor grad_normed = grad_.narrow(0, begin, own);
  const tritonforge::gpu::RmsNormBackwardArgs norm{.dx = bits(grad_normed),
                                                   .normed = nullptr,
                                                   .x = bits(x_.narrow(0, begin, own)),
                                                   .w = bits(model_.final_norm()),
                                                   .dy = bits(grad_normed),
                                                   .residual = nullptr,
                                                   .partials = static_cast<float*>(partials_.mutable_data_ptr()),
                                                   .dw = gradient_of(gradients.sums.final_norm(), !gradients.empty),
                                                   .rows = own,
                                                   .d = c.hidden_size,
                                                   .eps = static_cast<float>(c.rms_norm_eps)};
  check_cuda(api_.rms_norm_backward(&norm, kStream));
  check_cuda(api_.scatter_rows(bits(grad), bits(grad_normed), rows_.const_data_ptr<int32_t>() + begin, own,
                               c.hidden_size, kStream));
}

}  // namespace tritonforge::train::gpu
