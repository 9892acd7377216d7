#include "train/losses.h"

#include "base/error.h"

namespace tritonforge::train {

at::Tensor sft_loss(const at::Tensor& log_probs, const at::Tensor& weights) { return -(log_probs * weights).sum(); }

at::Tensor kl_estimate(KlType type, const at::Tensor& log_probs, const at::Tensor& reference_log_probs) {
  const at::Tensor d = log_probs - reference_log_probs;
  switch (type) {
    case KlType::kK1: return d;
    case KlType::kK2: return 0.5 * d * d;
    case KlType::kK3: return at::expm1(-d) + d;
  }
  TF_CHECK(false, "KL type {} has no estimate", static_cast<int>(type));
  return {};
}

PolicyLoss grpo_loss(const PolicyInputs& in, const LossConfig& config) {
  PolicyLoss out;
  const at::Tensor ratio = (in.log_probs - in.old_log_probs).exp();
  const at::Tensor advantages = at::where(in.advantages < 0, config.negative_weight * in.advantages, in.advantages);
  const at::Tensor plain = ratio * advantages;
  const at::Tensor held = ratio.clamp(1 - config.clip_low, 1 + config.clip_high) * advantages;
  at::Tensor token_loss = -at::minimum(plain, held);
  out.clipped = held.detach().lt(plain.detach()).to(at::kFloat);
  if (config.tis_cap > 0) {
    out.importance = (in.old_log_probs - in.sampler_log_probs).detach().exp().clamp_max(config.tis_cap);
    token_loss = token_loss * out.importance;
  } else {
    out.importance = at::ones_like(in.advantages);
  }
  if (config.kl_coef > 0) {
    const at::Tensor kl = kl_estimate(config.kl_type, in.log_probs, in.reference_log_probs);
    token_loss = token_loss + config.kl_coef * kl;
    out.kl = kl.detach();
  }
  if (config.entropy_coef > 0) token_loss = token_loss - config.entropy_coef * in.entropy;
  out.loss = (token_loss * in.weights).sum();
  return out;
}

}  // namespace tritonforge::train
