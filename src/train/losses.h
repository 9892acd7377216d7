#pragma once
// The losses as pure functions of per-token tensors, all [n] fp32. A loss is the sum over targets of weight * loss,
// with the weights of packing.h; nothing here synchronises with the host.
#include <ATen/ATen.h>

#include <string>

#include "train/config.h"
#include "train/lm_head_loss.h"

namespace tritonforge::train {

// Negative log-likelihood.
at::Tensor sft_loss(const at::Tensor& log_probs, const at::Tensor& weights);
at::Tensor sft_gradient(const at::Tensor& weights);  // of log_probs

// Per-token estimates of KL(policy || reference) with d = log_probs - reference (Schulman 2020):
// k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d; where -d is above 10, on k3's tangent there.
at::Tensor kl_estimate(KlType type, const at::Tensor& log_probs, const at::Tensor& reference_log_probs);

struct PolicyInputs {
  at::Tensor log_probs;            // carries the gradient
  at::Tensor old_log_probs;        // the ratio's denominator
  at::Tensor sampler_log_probs;    // at sampling time; for the importance weight
  at::Tensor reference_log_probs;  // undefined where kl_coef is 0
  at::Tensor entropy;              // carries the gradient where entropy_coef > 0
  at::Tensor advantages, weights;
  at::Tensor on_policy;  // 1 where the token was sampled from the weights that old_log_probs are of
  at::Tensor lengths;    // [sequences] int64: targets of each sequence; their sum is n
};

struct PolicyLoss {
  at::Tensor loss;        // scalar
  at::Tensor clipped;     // [n] 1 where the clip holds the token's gradient at 0 (cispo: its ratio at the bound)
  at::Tensor importance;  // [n] truncated importance weight (1 where tis_cap is 0)
  at::Tensor masked;      // [n] 1 where off-policy sequence masking leaves the token out
  at::Tensor kl;          // [n] estimate against the reference; undefined without one
};

// With r_t = exp(min(log_probs - old, 20)) of a token, |y| the targets of its sequence, and sg() without gradient:
//
//   A = advantage, times negative_weight where it is below 0 (0: RAFT, Dong et al. 2023; between the two, see
//       Xiong et al. 2025, "A Minimalist Approach to LLM Reasoning"); with kl_type k1 minus kl_coef (old - reference)
//
//   objective clip    J = min(r A, clip(r, 1 - low, 1 + high) A)      GRPO (arXiv 2402.03300); DAPO (2503.14476)
//             gspo    the same with sg(s) pi / sg(pi) in place of r, pi = exp(log_probs), s = exp(mean over the
//                     sequence of log r): GSPO-token (2507.18071), which is GSPO where A is one number a sequence and
//                     the aggregation seq-mean-token-mean
//             cispo   J = sg(clip(r, 1 - low, 1 + high)) A log_probs  CISPO (MiniMax-M1, 2506.13585)
//
//   w = min(sg(exp(old - sampler)), tis_cap), over tokens that are not on-policy (all with tis_on_policy): truncated
//       importance sampling, of each token (Yao et al. 2025), or with tis sequence of the product over a sequence
//   m = 0 where mean over the sequence of (sampler - log_probs) > mask_divergence and A < 0, else 1: off-policy
//       sequence masking (DeepSeek-V3.2, 2512.02556)
//
//   loss = -m w J + kl_coef kl - entropy_coef entropy
//
// As a loss, k1's gradient would be 0 in expectation; as a penalty in A, whose gradient is A times the score, it is the
// KL's. So k1 is in A, k2 and k3 are in the loss.
PolicyLoss policy_loss(const PolicyInputs& inputs, const LossConfig& config);

// Whether the loss of a token depends on that token's scores alone: nothing in it is a sum over a sequence.
bool is_of_each_token(const LossConfig& config);
// Of the loss, by the inputs' log_probs and, with entropy_coef, entropy. The targets may be any of a batch where
// is_of_each_token(): the same bits as of all of them at once.
ScoreGradients policy_gradients(PolicyInputs inputs, const LossConfig& config);

}  // namespace tritonforge::train
