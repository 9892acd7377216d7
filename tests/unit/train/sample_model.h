#pragma once
// A small random model and batches for the trainer's tests.
#include <ATen/core/grad_mode.h>

#include <vector>

#include "base/rng.h"
#include "model/model.h"
#include "train/losses.h"
#include "train/trainer.h"

namespace tritonforge::train {

inline model::ModelConfig sample_config(bool tied = true) {
  model::ModelConfig config;
  config.family = model::Family::kQwen3;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 61;
  config.max_position = 128;
  config.tie_embeddings = tied;
  config.eos_token_ids = {1};
  return config;
}

inline model::Model sample_model(at::ScalarType dtype = at::kFloat, uint64_t seed = 3) {
  model::Model model(sample_config(), dtype, at::kCPU);
  model.init_random(seed, 0.3);
  return model;
}

inline TrainConfig sample_train_config() {
  TrainConfig config;
  config.model = "unused";
  config.dtype = "float32";
  config.lr = 1e-2;
  config.schedule = Schedule::kConstant;
  config.max_tokens_per_micro_batch = 128;
  config.lm_head_chunk = 16;
  config.seed = 5;
  return config;
}

// `count` sequences of 6 to 40 tokens; about two thirds of the tokens are targets with log-probs and advantages.
inline std::vector<TrainSequence> sample_sequences(size_t count, uint64_t seed, double temperature = 1.0) {
  Rng rng(seed);
  std::vector<TrainSequence> sequences;
  for (size_t i = 0; i < count; ++i) {
    TrainSequence s;
    const size_t length = 6 + rng.below(35);
    const double advantage = 2 * rng.uniform() - 1;
    for (size_t t = 0; t < length; ++t) {
      const bool target = t + 1 == length || (t > 2 && rng.below(3) > 0);
      s.tokens.push_back(static_cast<int64_t>(rng.below(61)));
      s.loss_mask.push_back(target);
      s.old_log_probs.push_back(target ? static_cast<float>(-4 * rng.uniform()) : 0.0f);
      s.advantages.push_back(target ? static_cast<float>(advantage) : 0.0f);
      s.weight_versions.push_back(target ? 0 : -1);
    }
    s.trajectory_id = "t" + std::to_string(i);
    s.temperature = temperature;
    sequences.push_back(std::move(s));
  }
  return sequences;
}

// Of each of `groups` prompts `samples`, one prompt's after another's. Prompts begin alike; half of a prompt's samples
// have a history behind it, of which nothing is trained. A message without targets parts each answer.
inline std::vector<TrainSequence> sample_groups(size_t groups, size_t samples, size_t prompt, uint64_t seed) {
  const auto some = [](uint64_t of, size_t count) {
    Rng rng(of);
    std::vector<int64_t> tokens(count);
    for (int64_t& token : tokens) token = static_cast<int64_t>(rng.below(61));
    return tokens;
  };
  std::vector<TrainSequence> sequences;
  for (size_t i = 0; i < groups * samples; ++i) {
    const size_t group = i % groups, sample = i / groups;
    Rng rng(Rng::derive(seed, i));
    TrainSequence s;
    const auto add = [&](const std::vector<int64_t>& tokens, bool targets) {
      for (const int64_t token : tokens) {
        s.tokens.push_back(token);
        s.loss_mask.push_back(targets);
        s.old_log_probs.push_back(targets ? static_cast<float>(-4 * rng.uniform()) : 0.0f);
        s.advantages.push_back(targets ? static_cast<float>(2 * rng.uniform() - 1) : 0.0f);
        s.weight_versions.push_back(targets ? 0 : -1);
      }
    };
    add(some(seed, prompt / 2), false);
    add(some(seed + 1 + group, prompt - prompt / 2 + group), false);
    if (sample >= samples / 2) add(some(seed + 100 + group, prompt / 2), false);
    for (const size_t part : {0, 1}) {
      add(some(Rng::derive(seed + 200, 2 * i + part), 3 + rng.below(12)), true);
      if (part == 0) add(some(seed + 300, 4), false);
    }
    s.trajectory_id = "g" + std::to_string(group) + "s" + std::to_string(sample);
    sequences.push_back(std::move(s));
  }
  return sequences;
}

// Of the policy's loss over those of a batch's targets whose scores these are.
inline PolicyInputs sample_inputs(const MicroBatch& batch, const TargetSlice& targets, const TargetScores& scores) {
  const auto part = [&](const at::Tensor& of) { return targets.of(of); };
  PolicyInputs in;
  in.log_probs = scores.log_probs;
  in.entropy = scores.entropy;
  in.sampler_log_probs = part(batch.sampler_log_probs);
  in.old_log_probs = scores.log_probs.detach() + 0.3 * part(batch.advantages);  // beyond both clips, here and there
  in.reference_log_probs = in.sampler_log_probs - 0.1;
  in.advantages = part(batch.advantages);
  in.weights = part(batch.weights);
  in.on_policy = part(batch.on_policy);
  in.lengths = batch.lengths;
  return in;
}

// Losses of which each token's is known from its own scores.
inline std::vector<LossConfig> losses_of_each_token() {
  return {{.tis_cap = 0},
          {.objective = Objective::kCispo, .negative_weight = 0.5},
          {.kl_coef = 0.1, .kl_type = KlType::kK1, .entropy_coef = 0.01},
          {.kl_coef = 0.1, .kl_type = KlType::kK3, .tis_on_policy = true}};
}

// Largest |a - b| over all parameters.
inline double largest_difference(const model::Model& a, const model::Model& b) {
  const at::NoGradGuard no_grad;
  double largest = 0;
  const auto x = a.named_parameters(), y = b.named_parameters();
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, (x[i].second.to(at::kDouble) - y[i].second.to(at::kDouble)).abs().max().item<double>());
  }
  return largest;
}

}  // namespace tritonforge::train
