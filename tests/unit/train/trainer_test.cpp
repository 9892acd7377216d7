#include "train/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/filesystem.h"
#include "base/json.h"
#include "kernels/parallel.h"
#include "train/lm_head_loss.h"
#include "train/packing.h"
#include "unit/train/sample_model.h"
#include "unit/train/scarce.h"

namespace tritonforge::train {
namespace {

Trainer make(const TrainConfig& config, at::ScalarType dtype = at::kFloat) {
  std::optional<model::Model> reference;
  if (config.loss.kl_coef > 0) reference = sample_model(dtype, 99);
  return Trainer(config, sample_model(dtype), std::move(reference));
}

// Fills old_log_probs with what the model itself gives: a sampler that agrees with the trainer.
void sampled_by(const model::Model& model, std::vector<TrainSequence>& sequences) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < sequences.size(); ++i) {
    TrainSequence& s = sequences[i];
    const MicroBatch batch = make_micro_batch(sequences, {i}, std::vector<double>(sequences.size(), 1.0), {}, at::kCPU);
    const at::Tensor hidden = model.forward(batch.ids, batch.positions, model::packed_attention(batch.cu_seqlens))
                                  .index_select(0, batch.rows);
    const at::Tensor log_probs = lm_head_scores(hidden, model.lm_head(), batch.targets, batch.inverse_temperature, 64)
                                     .log_probs;
    int64_t next = 0;
    for (size_t t = 0; t < s.tokens.size(); ++t) {
      if (s.loss_mask[t]) s.old_log_probs[t] = log_probs[next++].item<float>();
    }
  }
}

// The trainer's own passes learn as autograd does, and as this test's stored curve says.
TEST(OwnPasses, LearnAsAutogradOver200Steps) {
  const fs::path file = fs::path(TF_SOURCE_DIR) / "tests/golden/sft_losses.json";
  const auto stored = parse_json(read_file(file), file.string()).get<std::vector<double>>();
  ASSERT_EQ(stored.size(), 200u);
  TrainConfig config = sample_train_config();
  config.lr = 5e-4;  // AdamW turns a difference of small gradients into one of steps: at 3e-3 it is 4e-5 after 120
  const kernels::ThreadPool alone(1);
  Trainer own = make(config);
  config.autograd = true;
  Trainer reference = make(config);
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const auto sequences = sample_sequences(6, 100 + step % 5);
    const StepMetrics a = own.train_step(StepKind::kSft, sequences),
                      b = reference.train_step(StepKind::kSft, sequences);
    EXPECT_NEAR(a.loss, b.loss, 1e-5 * b.loss) << "step " << step;
    EXPECT_NEAR(a.loss, stored[static_cast<size_t>(step)], 1e-5 * b.loss) << "step " << step;
    if (step == 0) first = a.loss;
    last = a.loss;
  }
  EXPECT_LT(last, first / 2) << "nothing was learned";
}

// What a token's loss depends on beside its own scores is there in the pass that has it: GSPO's ratio of a sequence,
// masks and weights over one, and what is known of each token at once.
TEST(OwnPasses, TakeStepsOfEveryObjectiveAsAutogradDoes) {
  const std::vector<LossConfig> losses{
      {.objective = Objective::kGspo, .clip_low = 1e-4, .clip_high = 1e-4},
      {.objective = Objective::kGspo, .aggregation = Aggregation::kSeqMeanTokenMean},
      {.objective = Objective::kCispo, .tis_cap = 0},
      {.objective = Objective::kCispo, .negative_weight = 0.5, .entropy_coef = 0.01, .tis = Tis::kSequence},
      {.kl_coef = 0.1, .mask_divergence = 0.01},
  };
  const kernels::ThreadPool alone(1);
  for (const LossConfig& loss : losses) {
    TrainConfig config = sample_train_config();
    config.lr = 1e-3;
    config.lm_head_chunk = 7;
    config.max_tokens_per_micro_batch = 64;
    config.optimizer_steps_per_batch = 2;
    config.loss = loss;
    Trainer own = make(config);
    config.autograd = true;
    Trainer reference = make(config);
    double clipped = 0;
    for (int step = 0; step < 4; ++step) {
      const auto sequences = sample_sequences(9, 100 + step);
      const StepMetrics a = own.train_step(StepKind::kRl, sequences),
                        b = reference.train_step(StepKind::kRl, sequences);
      const std::string name = fmt::format("{} in step {}", name_of(loss.objective), step + 1);
      EXPECT_NEAR(a.loss, b.loss, 1e-4 * (1 + std::fabs(b.loss))) << name;
      EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-3 * b.grad_norm) << name;
      EXPECT_NEAR(a.policy->clip_fraction, b.policy->clip_fraction, 0.01) << name;
      EXPECT_NEAR(a.policy->masked_fraction, b.policy->masked_fraction, 0.01) << name;
      EXPECT_EQ(a.skipped_updates, 0) << name;
      clipped += a.policy->clip_fraction + a.policy->masked_fraction;
    }
    if (loss.clip_low < 0.01 || loss.mask_divergence > 0) {
      EXPECT_GT(clipped, 0) << name_of(loss.objective);
    }
  }
}

// A sequence without advantage is not computed, and the step is that of an advantage of next to nothing.
TEST(Untaught, SequencesCostNothingAndChangeNothing) {
  auto sequences = sample_sequences(8, 21);
  const auto give = [&](float advantage) {
    auto given = sequences;
    for (size_t i = 0; i < given.size(); i += 2) {
      for (float& a : given[i].advantages) a = advantage;
    }
    return given;
  };
  Trainer skips = make(sample_train_config()), computes = make(sample_train_config());
  const StepMetrics a = skips.train_step(StepKind::kRl, give(0)), b = computes.train_step(StepKind::kRl, give(1e-30f));
  EXPECT_LT(a.tokens, b.tokens);
  EXPECT_EQ(a.sequences, b.sequences);
  EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5 * b.grad_norm);
  const auto from = skips.model().named_parameters(), to = computes.model().named_parameters();
  for (size_t i = 0; i < from.size(); ++i) {
    EXPECT_LT((from[i].second - to[i].second).abs().max().item<float>(), 1e-4) << from[i].first;
  }
}

TEST(Untaught, IsWhatTheLossSays) {
  auto sequence = sample_sequences(1, 4)[0];
  LossConfig loss;
  EXPECT_TRUE(has_gradient(sequence, loss));
  for (float& a : sequence.advantages) a = -1;
  EXPECT_TRUE(has_gradient(sequence, loss));
  loss.negative_weight = 0;
  EXPECT_FALSE(has_gradient(sequence, loss));
  loss.kl_coef = 0.1;
  EXPECT_TRUE(has_gradient(sequence, loss));
  loss.kl_coef = 0;
  loss.entropy_coef = 0.1;
  EXPECT_TRUE(has_gradient(sequence, loss));
  loss = {};
  for (float& a : sequence.advantages) a = 0;
  EXPECT_FALSE(has_gradient(sequence, loss));
  sequence.advantages.back() = 0.5f;
  EXPECT_TRUE(has_gradient(sequence, loss));
}

TEST(Untaught, AStepOfNothingElseHasItsFigures) {
  auto sequences = sample_sequences(4, 8);
  for (auto& s : sequences) std::fill(s.advantages.begin(), s.advantages.end(), 0.0f);
  Trainer trainer = make(sample_train_config());
  const StepMetrics metrics = trainer.train_step(StepKind::kRl, sequences);
  EXPECT_EQ(metrics.grad_norm, 0);
  EXPECT_GT(metrics.target_tokens, 0);
  EXPECT_EQ(metrics.sequences, 4);
}

struct Accumulation {
  StepKind kind;
  Aggregation aggregation;
};
class GradientAccumulation : public testing::TestWithParam<Accumulation> {};

TEST_P(GradientAccumulation, ManyMicroBatchesEqualOne) {
  TrainConfig config = sample_train_config();
  config.loss.aggregation = GetParam().aggregation;
  config.loss.kl_coef = 0.1;
  config.loss.entropy_coef = 0.01;
  config.loss.tis_cap = 2;
  config.max_tokens_per_micro_batch = 4096;
  Trainer whole = make(config);
  config.max_tokens_per_micro_batch = 41;
  config.lm_head_chunk = 7;
  Trainer parts = make(config);
  for (int step = 0; step < 3; ++step) {
    const auto sequences = sample_sequences(12, 100 + step);
    const StepMetrics a = whole.train_step(GetParam().kind, sequences),
                      b = parts.train_step(GetParam().kind, sequences);
    EXPECT_EQ(a.micro_batches, 1);
    EXPECT_GE(b.micro_batches, 5);
    EXPECT_NEAR(a.loss, b.loss, 1e-4 * (1 + std::fabs(a.loss)));
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * a.grad_norm);
    EXPECT_NEAR(a.entropy, b.entropy, 1e-4);
  }
  // Adam's first steps turn a gradient near 0 into +-lr: compare weights with that in mind.
  EXPECT_LT(largest_difference(whole.model(), parts.model()), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Losses, GradientAccumulation,
                         testing::Values(Accumulation{StepKind::kSft, Aggregation::kTokenMean},
                                         Accumulation{StepKind::kRl, Aggregation::kTokenMean},
                                         Accumulation{StepKind::kRl, Aggregation::kSeqMeanTokenSum},
                                         Accumulation{StepKind::kRl, Aggregation::kConstant}));

// Prompts once for all of their samples, or once for each: the same losses and weights, whatever the loss is and
// however the sequences are packed. Weights differ as sums of another order do, which Adam makes more of.
TEST(Trainer, SharedPrefixesTakeTheStepsOfWholeSequences) {
  const std::vector<LossConfig> losses{{},
                                       {.objective = Objective::kGspo, .aggregation = Aggregation::kSeqMeanTokenMean},
                                       {.kl_coef = 0.1, .entropy_coef = 0.01, .tis = Tis::kSequence}};
  for (const LossConfig& loss : losses) {
    for (const int64_t capacity : {4096, 160}) {
      TrainConfig config = sample_train_config();
      config.loss = loss;
      config.lr = 1e-3;
      config.max_tokens_per_micro_batch = capacity;
      config.optimizer_steps_per_batch = capacity == 160 ? 2 : 1;
      Trainer shared = make(config), again = make(config);
      config.share_prefixes = false;
      Trainer whole = make(config);
      for (int step = 0; step < 4; ++step) {
        const StepKind kind = step == 3 ? StepKind::kSft : StepKind::kRl;
        const auto sequences = sample_groups(3, 6, 50, 40 + step);
        const StepMetrics a = shared.train_step(kind, sequences), b = whole.train_step(kind, sequences);
        again.train_step(kind, sequences);
        EXPECT_NEAR(a.loss, b.loss, 1e-5 * (1 + std::fabs(b.loss)));
        EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * b.grad_norm);
        EXPECT_NEAR(a.entropy, b.entropy, 1e-4);
        EXPECT_EQ(a.target_tokens, b.target_tokens);
        EXPECT_EQ(a.tokens + a.shared_tokens, b.tokens);
        EXPECT_GT(a.shared_tokens, b.tokens / 4);
        EXPECT_EQ(b.shared_tokens, 0);
        if (step == 0 && capacity == 4096) {
          EXPECT_LT(a.tflops * a.seconds, b.tflops * b.seconds) << "operations that were not done count";
          EXPECT_FLOAT_EQ(a.policy->train_rollout_logprob_abs_diff, b.policy->train_rollout_logprob_abs_diff);
        }
      }
      EXPECT_LT(largest_difference(shared.model(), whole.model()), 2e-4);
      EXPECT_EQ(largest_difference(shared.model(), again.model()), 0.0) << "two runs differ";
    }
  }
}

TEST(Trainer, RecomputeChangesNoBit) {
  TrainConfig config = sample_train_config();
  Trainer kept = make(config);
  config.recompute_layers = 2;
  Trainer recomputed = make(config);
  for (int step = 0; step < 2; ++step) {
    const auto sequences = sample_sequences(6, step);
    kept.train_step(StepKind::kSft, sequences);
    recomputed.train_step(StepKind::kSft, sequences);
  }
  EXPECT_EQ(largest_difference(kept.model(), recomputed.model()), 0.0);
}

TEST(Trainer, LearnsABatchByHeart) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    TrainConfig config = sample_train_config();
    config.dtype = dtype == at::kFloat ? "float32" : "bfloat16";
    Trainer trainer = make(config, dtype);
    const auto sequences = sample_sequences(4, 1);
    const double first = trainer.train_step(StepKind::kSft, sequences).loss;
    double last = first;
    for (int i = 0; i < 40; ++i) last = trainer.train_step(StepKind::kSft, sequences).loss;
    EXPECT_LT(last, 0.3 * first) << config.dtype;
  }
}

TEST(Trainer, ASamplerThatAgreesShowsNoDifference) {
  Trainer trainer = make(sample_train_config());
  auto sequences = sample_sequences(6, 8, 0.7);
  sampled_by(trainer.model(), sequences);
  const auto first = trainer.train_step(StepKind::kRl, sequences);
  EXPECT_LT(first.policy->train_rollout_logprob_abs_diff_max, 1e-4);
  EXPECT_LT(std::fabs(first.policy->kl_rollout), 1e-6);
  EXPECT_EQ(first.policy->on_policy_fraction, 1);
  EXPECT_EQ(first.policy->clip_fraction, 0);
  EXPECT_EQ(first.policy->kl, 0);
  // The weights have moved: version 0 is no longer theirs, and the sampler's log-probs are those of older weights.
  const auto second = trainer.train_step(StepKind::kRl, sequences);
  EXPECT_EQ(second.policy->on_policy_fraction, 0);
  EXPECT_GT(second.policy->train_rollout_logprob_abs_diff, 1e-3);
  EXPECT_GE(second.policy->train_rollout_logprob_abs_diff_max, second.policy->train_rollout_logprob_abs_diff_p99);
  trainer.published(0);
  EXPECT_EQ(trainer.train_step(StepKind::kRl, sequences).policy->on_policy_fraction, 1);
}

TEST(Trainer, APositiveAdvantageMakesTokensLikelier) {
  Trainer trainer = make(sample_train_config());
  auto sequences = sample_sequences(4, 3);
  for (auto& s : sequences) {
    for (size_t t = 0; t < s.tokens.size(); ++t) s.advantages[t] = s.loss_mask[t] ? 1.0f : 0.0f;
  }
  auto after = sequences;
  sampled_by(trainer.model(), sequences);
  for (int i = 0; i < 5; ++i) trainer.train_step(StepKind::kRl, sequences);
  sampled_by(trainer.model(), after);
  double before_sum = 0, after_sum = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (size_t t = 0; t < sequences[i].tokens.size(); ++t) {
      before_sum += sequences[i].old_log_probs[t];
      after_sum += after[i].old_log_probs[t];
    }
  }
  EXPECT_GT(after_sum, before_sum + 1);
}

TEST(Trainer, SeveralUpdatesKeepTheRatioOfTheStart) {
  TrainConfig config = sample_train_config();
  config.optimizer_steps_per_batch = 4;
  config.lr = 0.05;
  Trainer trainer = make(config);
  auto sequences = sample_sequences(12, 3);
  sampled_by(trainer.model(), sequences);
  const auto metrics = trainer.train_step(StepKind::kRl, sequences);
  EXPECT_LT(metrics.policy->train_rollout_logprob_abs_diff_max, 1e-4);  // measured before the first update
  EXPECT_GT(metrics.policy->clip_fraction, 0);                          // the later updates see moved weights
  EXPECT_EQ(metrics.micro_batches, 4 * std::ceil(metrics.micro_batches / 4));
}

TEST(Trainer, SequencesWithATokenOfTooOldWeightsAreLeftOutAndCounted) {
  TrainConfig config = sample_train_config();
  config.max_staleness = 1;
  Trainer trainer = make(config), without = make(config);
  for (Trainer* each : {&trainer, &without}) each->published(7);
  auto sequences = sample_sequences(3, 3);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t t = 0; t < sequences[i].tokens.size(); ++t) {
      if (sequences[i].loss_mask[t]) sequences[i].weight_versions[t] = i == 0 ? 7 : 6;
    }
  }
  // One token of the last is of version 5.
  *std::find(sequences[2].weight_versions.begin(), sequences[2].weight_versions.end(), 6) = 5;
  const auto metrics = trainer.train_step(StepKind::kRl, sequences);
  EXPECT_EQ(metrics.policy->stale_sequences, 1);
  sequences.pop_back();
  EXPECT_EQ(without.train_step(StepKind::kRl, sequences).policy->stale_sequences, 0);
  EXPECT_EQ(largest_difference(trainer.model(), without.model()), 0.0);
  // Where all of them are, the step is one without an update, and says why.
  trainer.published(9);
  const auto none = trainer.train_step(StepKind::kRl, sequences);
  EXPECT_EQ(none.skipped_updates, 1);
  EXPECT_EQ(none.policy->stale_sequences, 2);
}

TEST(Trainer, WithNoStalenessTheWeightsBeforeAreTooOldForRlAndForNothingElse) {
  TrainConfig config = sample_train_config();
  config.max_staleness = 0;
  Trainer trainer = make(config);
  trainer.published(1);
  const auto sequences = sample_sequences(3, 3);  // of version 0
  EXPECT_EQ(trainer.train_step(StepKind::kRl, sequences).policy->stale_sequences, 3);
  const StepMetrics sft = trainer.train_step(StepKind::kSft, sequences);
  EXPECT_FALSE(sft.policy);
  EXPECT_GT(sft.target_tokens, 0);
}

// The mean and the deviation are those of the step, not of each mini-batch.
TEST(Trainer, AdvantagesAreNormalizedOverAllOfAStep) {
  TrainConfig config = sample_train_config();
  config.optimizer_steps_per_batch = 3;
  Trainer given = make(config);
  config.loss.normalize_advantages = true;
  Trainer normalizes = make(config);
  auto sequences = sample_sequences(7, 5);
  normalizes.train_step(StepKind::kRl, sequences);
  normalize_advantages(sequences);
  given.train_step(StepKind::kRl, sequences);
  EXPECT_EQ(largest_difference(given.model(), normalizes.model()), 0.0);
}

TEST(Trainer, MiniBatchesAreDrawnFromTheSeed) {
  TrainConfig config = sample_train_config();
  config.optimizer_steps_per_batch = 2;
  Trainer one = make(config), same = make(config);
  config.seed += 1;
  Trainer other = make(config);
  for (Trainer* each : {&one, &same, &other}) each->train_step(StepKind::kSft, sample_sequences(8, 5));
  EXPECT_EQ(largest_difference(one.model(), same.model()), 0.0);
  EXPECT_GT(largest_difference(one.model(), other.model()), 0.0);
}

TEST(Trainer, ARatioOverTheSamplerIsClippedWhereTheSamplerDiffers) {
  TrainConfig config = sample_train_config();
  Trainer over_itself = make(config);
  config.loss.ratio_base = RatioBase::kSampler;
  config.loss.tis_cap = 0;
  Trainer over_sampler = make(config);
  const auto sequences = sample_sequences(5, 5);  // whose log-probs are nobody's
  EXPECT_EQ(over_itself.train_step(StepKind::kRl, sequences).policy->clip_fraction, 0);
  EXPECT_GT(over_sampler.train_step(StepKind::kRl, sequences).policy->clip_fraction, 0.1);
}

TEST(Trainer, AStepThatFailsAnywhereIsTakenAgainToTheSameBitsOrLeavesABrokenTrainer) {
  TrainConfig config = sample_train_config();
  config.optimizer_steps_per_batch = 2;
  config.max_tokens_per_micro_batch = 64;
  const kernels::ThreadPool alone(1);
  const auto sequences = sample_sequences(6, 3);
  Trainer straight = make(config);
  int64_t blocks = 0;
  {
    const Scarce memory;
    straight.train_step(StepKind::kRl, sequences);
    blocks = Scarce::kPlenty - Scarce::left;
  }
  int taken = 0, broken = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    Trainer trainer = make(config);  // whose passes have no memory yet
    {
      const Scarce memory(block);
      EXPECT_THROW(trainer.train_step(StepKind::kRl, sequences), Error) << block;
    }
    if (trainer.broken()) {
      ++broken;
      EXPECT_THROW(trainer.train_step(StepKind::kRl, sequences), Error) << block;
      continue;
    }
    ++taken;
    EXPECT_EQ(trainer.train_step(StepKind::kRl, sequences).step, 1);
    EXPECT_EQ(largest_difference(trainer.model(), straight.model()), 0.0) << block;
  }
  EXPECT_GT(taken, 50);
  EXPECT_GT(broken, 50);
}

TEST(Trainer, OldReferenceAndPolicyLogProbsComeFromOnePath) {
  // The same weights as policy and as reference, in a pass with gradients and one without, in another packing: the KL
  // is exactly 0 and so is the clip's ratio exactly 1.
  TrainConfig config = sample_train_config();
  config.loss.kl_coef = 0.1;
  config.recompute_layers = 1;
  Trainer trainer(config, sample_model(), sample_model());
  const auto metrics = trainer.train_step(StepKind::kRl, sample_sequences(6, 8, 0.7));
  EXPECT_EQ(metrics.policy->kl, 0);
  EXPECT_EQ(metrics.policy->clip_fraction, 0);
}

TEST(Trainer, OldTokensAreCorrectedByDefault) {
  // With one update a step the ratio is 1 whatever was sampled from: without the weight the sampler would not matter.
  auto sequences = sample_sequences(6, 8);
  auto sampled_otherwise = sequences;
  for (auto& s : sampled_otherwise) {
    for (size_t t = 0; t < s.tokens.size(); ++t) s.old_log_probs[t] -= s.loss_mask[t] ? 0.5f : 0.0f;
  }
  const auto difference = [&](bool old, double cap) {
    TrainConfig config = sample_train_config();
    config.loss.tis_cap = cap;
    Trainer a = make(config), b = make(config);
    for (Trainer* each : {&a, &b}) {
      if (old) each->train_step(StepKind::kSft, sample_sequences(2, 1));  // version 0 is no longer theirs
    }
    a.train_step(StepKind::kRl, sequences);
    b.train_step(StepKind::kRl, sampled_otherwise);
    return largest_difference(a.model(), b.model());
  };
  const double by_default = LossConfig{}.tis_cap;
  EXPECT_GT(difference(true, by_default), 1e-4);
  EXPECT_EQ(difference(true, 0), 0.0);
  EXPECT_EQ(difference(false, by_default), 0.0);  // on-policy there is nothing to correct
}

TEST(Trainer, NothingToTrainIsRefusedInSftAndRecordedInRl) {
  Trainer trainer = make(sample_train_config());
  const model::Model before = sample_model();
  auto sequences = sample_sequences(2, 3);
  for (auto& s : sequences) s.loss_mask.assign(s.tokens.size(), 0);
  EXPECT_THROW(trainer.train_step(StepKind::kSft, sequences), Error);
  EXPECT_EQ(trainer.state().step, 0);
  const auto metrics = trainer.train_step(StepKind::kRl, sequences, BatchFigures{.groups = 3});
  EXPECT_EQ(metrics.step, 1);
  EXPECT_EQ(metrics.skipped_updates, 1);
  EXPECT_EQ(metrics.batch->groups, 3);
  EXPECT_EQ(largest_difference(trainer.model(), before), 0.0);
  EXPECT_THAT(trainer.state().weight_versions, testing::ElementsAre(0));
}

TEST(Trainer, ANonFiniteGradientSkipsTheUpdateAndSaysSo) {
  auto sequences = sample_sequences(2, 3);
  sequences[0].advantages.back() = 3e38f;  // finite, but its gradient is not
  TrainConfig config = sample_train_config();
  config.loss.aggregation = Aggregation::kSeqMeanTokenSum;
  config.loss.ratio_base = RatioBase::kSampler;
  config.loss.clip_high = 1e9;
  Trainer loose = make(config);
  sequences[0].old_log_probs.back() = -20;  // ratio e^16: overflows with that advantage
  loose.published(5);
  const auto metrics = loose.train_step(StepKind::kRl, sequences);
  EXPECT_EQ(metrics.skipped_updates, 1);
  EXPECT_EQ(largest_difference(loose.model(), sample_model()), 0.0);
  EXPECT_EQ(loose.state().weight_versions.back(), 5) << "what the engines have is still on-policy";
  EXPECT_EQ(loose.train_step(StepKind::kSft, sample_sequences(2, 4)).skipped_updates, 0);
  EXPECT_TRUE(loose.state().weight_versions.empty());
}

}  // namespace
}  // namespace tritonforge::train
