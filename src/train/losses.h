#pragma once
// The losses as pure functions of per-token tensors, all [n] fp32. A loss is the sum over targets of weight * loss,
// with the weights of packing.h; nothing here synchronises with the host.
#include <ATen/ATen.h>

#include <string>

#include "train/config.h"

namespace tritonforge::train {

// Negative log-likelihood.
at::Tensor sft_loss(const at::Tensor& log_probs, const at::Tensor& weights);

// Per-token estimates of KL(policy || reference) with d = log_probs - reference (Schulman 2020):
// k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d.
at::Tensor kl_estimate(KlType type, const at::Tensor& log_probs, const at::Tensor& reference_log_probs);

struct PolicyInputs {
  at::Tensor log_probs;            // carries the gradient
  at::Tensor old_log_probs;        // the ratio's denominator
  at::Tensor sampler_log_probs;    // at sampling time; for the importance weight
  at::Tensor reference_log_probs;  // undefined where kl_coef is 0
  at::Tensor entropy;              // carries the gradient where entropy_coef > 0
  at::Tensor advantages, weights;
};

struct PolicyLoss {
  at::Tensor loss;        // scalar
  at::Tensor clipped;     // [n] 1 where the clip holds the token's gradient at 0
  at::Tensor importance;  // [n] truncated importance weight (1 where tis_cap is 0)
  at::Tensor kl;          // [n] estimate against the reference; undefined without one
};

// GRPO (Shao et al. 2024) with an asymmetric clip (DAPO, Yu et al. 2025) and token-level truncated importance
// sampling (Yao et al. 2025):
//   r = exp(log_probs - old);  w = min(exp(old - sampler), tis_cap), no gradient
//   A = advantage, times negative_weight where it is below 0 (0: RAFT, Dong et al. 2023; between the two, see
//   Xiong et al. 2025, "A Minimalist Approach to LLM Reasoning")
//   loss_i = -w * min(r A, clip(r, 1 - low, 1 + high) A) + kl_coef * kl - entropy_coef * entropy
PolicyLoss grpo_loss(const PolicyInputs& inputs, const LossConfig& config);

}  // namespace tritonforge::train
