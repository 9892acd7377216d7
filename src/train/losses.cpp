#include "train/losses.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "base/error.h"

namespace tritonforge::train {
namespace {

// A ratio beyond it, of a negative advantage, would be a gradient whose square fp32 does not hold: the step would not
// be taken, for one token. (verl's bound. From 89 on it is infinite, and held at 0 by a clip or a mask NaN.)
constexpr double kLargestLogRatio = 20;
// From here on k3, which grows as e^-d, goes on as its tangent: for the same reason, and as far as others clamp it
// (slime, OpenRLHF), but still towards the reference, where a clamp has no gradient.
constexpr double kLargestKlRatio = 10;

// The sum or mean of `values` over each sequence, at every one of its targets. Without gradient.
at::Tensor over_sequence(const char* reduction, const at::Tensor& values, const at::Tensor& lengths) {
  const at::Tensor reduced = at::segment_reduce(values.detach(), reduction, lengths, {}, {}, 0, /*unsafe=*/true);
  return at::repeat_interleave(reduced, lengths, 0, values.size(0));
}

at::Tensor advantages_of(const PolicyInputs& in, const LossConfig& config) {
  const at::Tensor task = at::where(in.advantages < 0, config.negative_weight * in.advantages, in.advantages);
  if (config.kl_coef == 0 || config.kl_type != KlType::kK1) return task;
  return task - config.kl_coef * (in.old_log_probs - in.reference_log_probs).detach();
}

struct Surrogate {
  at::Tensor gain;     // [n] what is to grow
  at::Tensor clipped;  // [n]
};

Surrogate surrogate(const PolicyInputs& in, const at::Tensor& advantages, const LossConfig& config) {
  const at::Tensor log_ratio = (in.log_probs - in.old_log_probs).clamp_max(kLargestLogRatio);
  const auto bounded = [&](const at::Tensor& ratio) { return ratio.clamp(1 - config.clip_low, 1 + config.clip_high); };
  if (config.objective == Objective::kCispo) {
    const at::Tensor ratio = log_ratio.detach().exp(), held = bounded(ratio);
    return {held * advantages * in.log_probs, held.ne(ratio).to(at::kFloat)};
  }
  at::Tensor ratio = log_ratio.exp();
  if (config.objective == Objective::kGspo)
    ratio = over_sequence("mean", log_ratio, in.lengths).exp() * (in.log_probs - in.log_probs.detach()).exp();
  const at::Tensor plain = ratio * advantages, held = bounded(ratio) * advantages;
  return {at::minimum(plain, held), held.detach().lt(plain.detach()).to(at::kFloat)};
}

at::Tensor importance_of(const PolicyInputs& in, const LossConfig& config) {
  if (config.tis_cap == 0) return at::ones_like(in.advantages);
  at::Tensor log_weight = (in.old_log_probs - in.sampler_log_probs).detach();
  if (!config.tis_on_policy) log_weight = log_weight * (1 - in.on_policy);
  if (config.tis == Tis::kSequence) log_weight = over_sequence("sum", log_weight, in.lengths);
  return log_weight.exp().clamp_max(config.tis_cap);
}

at::Tensor masked_of(const PolicyInputs& in, const at::Tensor& advantages, const LossConfig& config) {
  if (config.mask_divergence == 0) return at::zeros_like(in.advantages);
  const at::Tensor divergence = over_sequence("mean", in.sampler_log_probs - in.log_probs, in.lengths);
  return at::logical_and(divergence > config.mask_divergence, advantages < 0).to(advantages.scalar_type());
}

}  // namespace

at::Tensor sft_loss(const at::Tensor& log_probs, const at::Tensor& weights) { return -(log_probs * weights).sum(); }
at::Tensor sft_gradient(const at::Tensor& weights) { return -weights; }

at::Tensor kl_estimate(KlType type, const at::Tensor& log_probs, const at::Tensor& reference_log_probs) {
  const at::Tensor d = log_probs - reference_log_probs;
  switch (type) {
    case KlType::kK1: return d;
    case KlType::kK2: return 0.5 * d * d;
    case KlType::kK3: {
      const at::Tensor near = (-d).clamp_max(kLargestKlRatio), beyond = (-d - kLargestKlRatio).clamp_min(0);
      return at::expm1(near) - near + beyond * std::expm1(kLargestKlRatio);
    }
  }
  TF_CHECK(false, "KL type {} has no estimate", static_cast<int>(type));
  return {};
}

PolicyLoss policy_loss(const PolicyInputs& in, const LossConfig& config) {
  PolicyLoss out;
  const at::Tensor advantages = advantages_of(in, config);
  const Surrogate objective = surrogate(in, advantages, config);
  out.clipped = objective.clipped;
  out.importance = importance_of(in, config);
  out.masked = masked_of(in, advantages, config);
  at::Tensor token_loss = -objective.gain * out.importance * (1 - out.masked);
  if (config.kl_coef > 0) {
    const at::Tensor kl = kl_estimate(config.kl_type, in.log_probs, in.reference_log_probs);
    if (config.kl_type != KlType::kK1) token_loss = token_loss + config.kl_coef * kl;
    out.kl = kl.detach();
  }
  if (config.entropy_coef > 0) token_loss = token_loss - config.entropy_coef * in.entropy;
  out.loss = (token_loss * in.weights).sum();
  return out;
}

bool is_of_each_token(const LossConfig& config) {
  const bool sequence_weight = config.tis == Tis::kSequence && config.tis_cap > 0;
  return config.objective != Objective::kGspo && !sequence_weight && config.mask_divergence == 0;
}

ScoreGradients policy_gradients(PolicyInputs inputs, const LossConfig& config) {
  const at::AutoGradMode on(true);
  inputs.log_probs = inputs.log_probs.detach().requires_grad_();
  inputs.entropy = inputs.entropy.detach().requires_grad_(config.entropy_coef > 0);
  policy_loss(inputs, config).loss.backward();
  return {inputs.log_probs.grad(), inputs.entropy.grad()};
}

}  // namespace tritonforge::train
