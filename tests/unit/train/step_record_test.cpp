#include "train/step_record.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tritonforge::train {
namespace {

TEST(StepRecord, CountsAreExactHoweverManyTokensThereAre) {
  constexpr int64_t kTokens = (int64_t{1} << 24) + 1;  // what fp32 has no number for
  StepRecord record;
  MicroBatch batch;
  batch.tokens = kTokens;
  batch.target_count = 1;
  record.add_sft(batch, {at::zeros({1}), at::zeros({1})}, at::zeros({}));
  record.add_flops(6e17);
  EXPECT_EQ(record.read().tokens, static_cast<double>(kTokens));
  EXPECT_EQ(record.flops(), 6e17);
}

// Two updates of a micro-batch each: 200 tokens of the current weights, whose log-probs differ by 0 to 0.199 from the
// sampler's, and one of older weights that differs by 2.
TEST(StepRecord, FiguresAreOfTheTokensThatTheirNamesSay) {
  const at::Tensor difference = at::cat({at::arange(200) / 1000.0, at::tensor({2.0f})}).to(at::kFloat);
  MicroBatch current, old;
  current.target_count = 200, old.target_count = 1;
  StepRecord record;
  const auto add = [&](MicroBatch& batch, int64_t from, float on_policy, float loss) {
    const at::Tensor ones = at::ones({batch.target_count}), signs = at::arange(batch.target_count).remainder(2) * 2 - 1;
    batch.sampler_log_probs = -3 * ones;
    batch.on_policy = on_policy * ones;
    batch.advantages = 0.5 * ones;
    const at::Tensor start = batch.sampler_log_probs + signs * difference.narrow(0, from, batch.target_count);
    record.add_rl(batch, {start, 1.5 * ones}, start,
                  {.loss = at::tensor(loss),
                   .clipped = ones - on_policy,
                   .importance = 2 - ones * on_policy,
                   .masked = ones * on_policy,
                   .kl = 0.25 * ones});
  };
  add(current, 0, 1, 3);
  record.add_update({at::tensor(4.0f), at::tensor(0.0f)});
  add(old, 200, 0, 5);
  record.add_update({at::tensor(6.0f), at::tensor(1.0f)});
  const StepMetrics metrics = record.read();
  EXPECT_EQ(metrics.loss, 4) << "the mean of the updates";
  EXPECT_EQ(metrics.grad_norm, 5);
  EXPECT_EQ(metrics.skipped_updates, 1);
  EXPECT_EQ(metrics.entropy, 1.5);
  ASSERT_TRUE(metrics.policy);
  const PolicyMetrics& policy = *metrics.policy;
  EXPECT_NEAR(policy.train_rollout_logprob_abs_diff, 0.0995, 1e-6) << "of those of the current weights";
  EXPECT_NEAR(policy.train_rollout_logprob_abs_diff_p99, 0.197, 1e-6);
  EXPECT_NEAR(policy.train_rollout_logprob_abs_diff_max, 0.199, 1e-6);
  double kl = std::expm1(-2.0) + 2;  // exp(d) - 1 - d, d = trainer - sampler: KL(sampler || trainer), of its samples
  for (int i = 0; i < 200; ++i) {
    const double d = (i % 2 == 1 ? 1 : -1) * i / 1000.0;
    kl += std::expm1(d) - d;
  }
  EXPECT_NEAR(policy.kl_rollout, kl / 201, 1e-6);
  EXPECT_NEAR(policy.on_policy_fraction, 200.0 / 201, 1e-6);
  EXPECT_NEAR(policy.clip_fraction, 1.0 / 201, 1e-6);
  EXPECT_NEAR(policy.importance_mean, 202.0 / 201, 1e-6);
  EXPECT_NEAR(policy.masked_fraction, 200.0 / 201, 1e-6);
  EXPECT_EQ(policy.kl, 0.25);
  EXPECT_EQ(policy.advantage_mean, 0.5);
}

}  // namespace
}  // namespace tritonforge::train
