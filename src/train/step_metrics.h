#pragma once
// What one training step was: the record that goes to the log, the reply and the checkpoint.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tritonforge::train {

enum class StepKind { kSft, kRl };
std::string_view name_of(StepKind kind);

// What one step was, by the names of docs/protocols.md. Always there: loss, grad_norm, lr, tokens, target_tokens,
// sequences, micro_batches, skipped_updates, seconds, tokens_per_s, entropy. In an RL step also: clip_fraction, kl
// (towards the reference; 0 without one), kl_rollout (k3 estimate of KL(sampler || trainer)), importance_mean,
// advantage_mean, on_policy_fraction, and train_rollout_logprob_abs_diff with its _p99 and _max: |trainer's log-prob at
// the weights before the step - sampler's| over the tokens sampled from those weights (over all where there are none).
struct StepMetrics {
  int64_t step = 0;
  std::string kind;
  std::map<std::string, double> values;
};

}  // namespace tritonforge::train
