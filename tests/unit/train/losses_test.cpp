#include "train/losses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/lm_head_loss.h"

namespace tritonforge::train {
namespace {

// The full-logits version in plain ATen operations.
TargetScores full_scores(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                         const at::Tensor& inverse) {
  at::Tensor logits = at::linear(hidden, weight).to(at::kFloat);
  if (inverse.defined()) logits = logits * inverse.unsqueeze(1);
  const at::Tensor all = at::log_softmax(logits, 1);
  return {all.gather(1, targets.unsqueeze(1)).squeeze(1), -(all.exp() * all).sum(1)};
}

struct HeadCase {
  int64_t rows, chunk;
  bool temperature, entropy;
};

class LmHeadChunks : public testing::TestWithParam<HeadCase> {};

TEST_P(LmHeadChunks, EqualsTheFullLogits) {
  const HeadCase c = GetParam();
  at::manual_seed(1);
  const at::Tensor targets = at::randint(0, 37, {c.rows}, at::kLong);
  const at::Tensor inverse = c.temperature ? at::rand({c.rows}) + 0.5 : at::Tensor();
  const at::Tensor a = at::randn({c.rows}), b = at::randn({c.rows});
  std::vector<std::vector<at::Tensor>> results;
  for (const bool chunked : {true, false}) {
    at::manual_seed(2);
    at::Tensor hidden = at::randn({c.rows, 16}).requires_grad_(true), weight = at::randn({37, 16}).requires_grad_(true);
    const TargetScores s = chunked ? lm_head_scores(hidden, weight, targets, inverse, c.chunk, c.entropy)
                                   : full_scores(hidden, weight, targets, inverse);
    at::Tensor loss = (s.log_probs * a).sum();
    if (c.entropy) loss = loss + (s.entropy * b).sum();
    loss.backward();
    results.push_back({s.log_probs, s.entropy, hidden.grad(), weight.grad()});
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(at::allclose(results[0][i], results[1][i], 1e-4, 1e-5)) << "output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Chunks, LmHeadChunks,
                         testing::Values(HeadCase{50, 16, false, false}, HeadCase{50, 16, true, true},
                                         HeadCase{48, 16, true, false}, HeadCase{5, 16, false, true},
                                         HeadCase{1, 1, true, true}));

TEST(LmHead, EntropyCarriesNoGradientUnlessAsked) {
  at::Tensor hidden = at::randn({4, 8}).requires_grad_(true);
  const at::Tensor weight = at::randn({11, 8});
  const TargetScores s = lm_head_scores(hidden, weight, at::zeros({4}, at::kLong), {}, 2, false);
  EXPECT_TRUE(s.log_probs.requires_grad());
  EXPECT_FALSE(s.entropy.requires_grad());
}

TEST(LmHead, Bfloat16FollowsFloat32) {
  at::manual_seed(4);
  const at::Tensor hidden = at::randn({40, 32}), weight = at::randn({50, 32}) * 0.2,
                   targets = at::randint(0, 50, {40}, at::kLong);
  at::Tensor narrow_hidden = hidden.to(at::kBFloat16).requires_grad_(true),
             narrow_weight = weight.to(at::kBFloat16).requires_grad_(true);
  at::Tensor wide_hidden = narrow_hidden.detach().to(at::kFloat).requires_grad_(true),
             wide_weight = narrow_weight.detach().to(at::kFloat).requires_grad_(true);
  const TargetScores narrow = lm_head_scores(narrow_hidden, narrow_weight, targets, {}, 16);
  const TargetScores wide = lm_head_scores(wide_hidden, wide_weight, targets, {}, 16);
  EXPECT_LT((narrow.log_probs - wide.log_probs).abs().max().item<float>(), 0.03);
  narrow.log_probs.sum().backward();
  wide.log_probs.sum().backward();
  EXPECT_EQ(narrow_weight.grad().scalar_type(), at::kBFloat16);
  EXPECT_LT((narrow_hidden.grad().to(at::kFloat) - wide_hidden.grad()).abs().max().item<float>(), 0.03);
  EXPECT_LT((narrow_weight.grad().to(at::kFloat) - wide_weight.grad()).abs().max().item<float>(), 0.2);
}

// The loss of one token in plain doubles, straight from the formula.
double token_loss(double lp, double old, double sampler, double reference, double entropy, double advantage,
                  const LossConfig& c) {
  const double ratio = std::exp(lp - old);
  if (advantage < 0) advantage *= c.negative_weight;
  if (c.kl_type == KlType::kK1) advantage -= c.kl_coef * (old - reference);
  const double held = std::min(std::max(ratio, 1 - c.clip_low), 1 + c.clip_high);
  double loss = -std::min(ratio * advantage, held * advantage);
  if (c.tis_cap > 0) loss *= std::min(std::exp(old - sampler), c.tis_cap);
  const double d = lp - reference;
  if (c.kl_type == KlType::kK2) loss += c.kl_coef * 0.5 * d * d;
  if (c.kl_type == KlType::kK3) loss += c.kl_coef * (std::exp(-d) - 1 + d);
  return loss - c.entropy_coef * entropy;
}

TEST(GrpoLoss, EqualsThePlainFormulaAndItsFiniteDifferences) {
  at::manual_seed(7);
  const int64_t n = 200;
  for (const KlType kl_type : {KlType::kK1, KlType::kK2, KlType::kK3}) {
    LossConfig config;
    config.kl_coef = 0.3;
    config.kl_type = kl_type;
    config.entropy_coef = 0.05;
    config.tis_cap = 1.5;
    config.negative_weight = 0.25;
    PolicyInputs in;
    in.log_probs = (-2 * at::rand({n}, at::kDouble)).requires_grad_(true);
    in.old_log_probs = in.log_probs.detach() + 0.4 * at::randn({n}, at::kDouble);
    in.sampler_log_probs = in.old_log_probs + 0.4 * at::randn({n}, at::kDouble);
    in.reference_log_probs = in.log_probs.detach() + at::randn({n}, at::kDouble);
    in.entropy = at::rand({n}, at::kDouble);
    in.advantages = at::randn({n}, at::kDouble);
    in.weights = at::rand({n}, at::kDouble);
    in.on_policy = at::zeros({n}, at::kDouble);
    in.lengths = at::tensor({n});
    const PolicyLoss loss = policy_loss(in, config);
    loss.loss.backward();
    double expected = 0;
    int64_t held = 0;
    const auto at_index = [](const at::Tensor& t, int64_t i) { return t.detach().data_ptr<double>()[i]; };
    for (int64_t i = 0; i < n; ++i) {
      const auto plain = [&](double lp) {
        return at_index(in.weights, i) * token_loss(lp, at_index(in.old_log_probs, i),
                                                    at_index(in.sampler_log_probs, i),
                                                    at_index(in.reference_log_probs, i), at_index(in.entropy, i),
                                                    at_index(in.advantages, i), config);
      };
      const double lp = at_index(in.log_probs, i), step = 1e-6;
      expected += plain(lp);
      const double slope = (plain(lp + step) - plain(lp - step)) / (2 * step);
      EXPECT_NEAR(in.log_probs.grad().data_ptr<double>()[i], slope, 1e-6) << name_of(kl_type) << " token " << i;
      const double ratio = std::exp(lp - at_index(in.old_log_probs, i));
      double advantage = at_index(in.advantages, i);
      if (kl_type == KlType::kK1)
        advantage = (advantage < 0 ? config.negative_weight * advantage : advantage) -
                    config.kl_coef * (at_index(in.old_log_probs, i) - at_index(in.reference_log_probs, i));
      held += advantage > 0 ? ratio > 1 + config.clip_high : ratio < 1 - config.clip_low;
    }
    EXPECT_NEAR(loss.loss.item<double>(), expected, 1e-9);
    EXPECT_EQ(loss.clipped.sum().item<int64_t>(), held);
    EXPECT_GT(held, 0);
    EXPECT_LE(loss.importance.max().item<double>(), 1.5);
    EXPECT_TRUE(at::equal(loss.kl, kl_estimate(kl_type, in.log_probs.detach(), in.reference_log_probs)));
  }
}

TEST(GrpoLoss, WithoutOptionsIsThePolicyGradient) {
  at::Tensor lp = at::tensor({-1.0f, -2.0f}).requires_grad_(true);
  PolicyInputs in{lp,
                  lp.detach(),
                  at::tensor({-1.5f, -1.0f}),
                  {},
                  {},
                  at::tensor({2.0f, -1.0f}),
                  at::tensor({0.5f, 0.5f}),
                  at::ones({2}),
                  at::tensor({int64_t{2}})};
  const PolicyLoss loss = policy_loss(in, LossConfig{});
  loss.loss.backward();
  EXPECT_TRUE(at::allclose(lp.grad(), at::tensor({-1.0f, 0.5f})));
  EXPECT_EQ(loss.importance.sum().item<float>(), 2.0f);
  EXPECT_FALSE(loss.kl.defined());
}

// As a pass is told it, which has no graph of the scores.
TEST(GrpoLoss, ThePassIsToldTheEntropysGradientToo) {
  PolicyInputs in;
  in.log_probs = in.old_log_probs = in.sampler_log_probs = at::tensor({-1.0f, -2.0f});
  in.entropy = at::tensor({0.5f, 0.7f});
  in.advantages = at::tensor({1.0f, -1.0f});
  in.weights = at::tensor({0.5f, 0.25f});
  in.on_policy = at::ones({2});
  in.lengths = at::tensor({int64_t{2}});
  const ScoreGradients gradients = policy_gradients(in, {.entropy_coef = 0.1});
  EXPECT_TRUE(at::allclose(gradients.log_probs, at::tensor({-0.5f, 0.25f})));
  EXPECT_TRUE(at::allclose(gradients.entropy, at::tensor({-0.05f, -0.025f})));
  EXPECT_FALSE(policy_gradients(in, {}).entropy.defined());
}

TEST(CispoLoss, ATokenWhoseRatioIsAtEitherBoundIsClipped) {
  PolicyInputs in;
  in.log_probs = at::tensor({-1.0f, -1.0f, -1.0f});
  in.old_log_probs = in.sampler_log_probs = at::tensor({-2.0f, -1.0f, -0.1f});
  in.advantages = in.weights = in.on_policy = at::ones({3});
  in.lengths = at::tensor({int64_t{3}});
  const PolicyLoss loss = policy_loss(in, {.objective = Objective::kCispo, .clip_low = 0.2, .clip_high = 0.3});
  EXPECT_TRUE(at::equal(loss.clipped, at::tensor({1.0f, 0.0f, 1.0f})));
}

// A sampler may call a token that it took impossible (vLLM writes -9999 for minus infinity).
TEST(GrpoLoss, ARatioBeyondFp32LeavesWhatIsClippedOrMaskedAtZero) {
  for (const Objective objective : {Objective::kClip, Objective::kGspo, Objective::kCispo}) {
    PolicyInputs in;
    in.log_probs = at::tensor({-1.0f, -2.0f, -3.0f, -0.5f});
    in.old_log_probs = at::tensor({-9999.0f, -9999.0f, -9999.0f, -0.5f});
    in.sampler_log_probs = at::tensor({-9999.0f, -9999.0f, 9.0f, -0.5f});
    in.entropy = at::zeros({4});
    in.advantages = at::tensor({1.0f, 0.0f, -1.0f, 1.0f});
    in.weights = at::full({4}, 0.25f);
    in.on_policy = at::zeros({4});
    in.lengths = at::ones({4}, at::kLong);
    const LossConfig config{
        .objective = objective, .tis_cap = 0, .mask_divergence = 1, .ratio_base = RatioBase::kSampler};
    const at::Tensor gradient = policy_gradients(in, config).log_probs;
    EXPECT_TRUE(at::isfinite(gradient).all().item<bool>()) << name_of(objective) << "\n" << gradient;
    EXPECT_EQ(gradient[1].item<float>(), 0) << name_of(objective);
    EXPECT_EQ(gradient[2].item<float>(), 0) << name_of(objective);
    EXPECT_FLOAT_EQ(gradient[3].item<float>(), -0.25f) << name_of(objective);
    in.log_probs = in.log_probs.detach();
    EXPECT_TRUE(std::isfinite(policy_loss(in, config).loss.item<float>())) << name_of(objective);
  }
}

// The norm of a gradient is the root of its squares, which fp32 must hold: a step without one is not taken.
TEST(GrpoLoss, NoSingleTokenTakesTheStepFromAllOthers) {
  for (const double apart : {50.0, 200.0}) {
    PolicyInputs in;
    in.log_probs = at::tensor({-1.0, -1.0 - apart, -0.5}).to(at::kFloat);
    in.old_log_probs = in.sampler_log_probs = at::tensor({-1.0 - apart, -1.0 - apart, -0.5}).to(at::kFloat);
    in.reference_log_probs = at::tensor({-1.0, -1.0, -0.5}).to(at::kFloat);
    in.entropy = at::zeros({3});
    in.advantages = at::tensor({-1.0f, 1.0f, 1.0f});
    in.weights = at::ones({3});
    in.on_policy = at::zeros({3});
    in.lengths = at::tensor({int64_t{3}});
    const at::Tensor gradient = policy_gradients(in, {.kl_coef = 1, .tis_cap = 0}).log_probs;
    EXPECT_TRUE(std::isfinite(gradient.square().sum().item<float>())) << gradient;
    EXPECT_LT(gradient[1].item<float>(), -1) << "towards the reference, however far it is";
    EXPECT_FLOAT_EQ(gradient[2].item<float>(), -1);
  }
}

// A policy over two tokens, in expectation over its own samples: the gradient of k1's penalty is the gradient of the
// KL, which for logits (z, 0) and reference q is p (1 - p) (log(p / (1 - p)) - log(q / (1 - q))) by z.
TEST(KlPenalty, K1PullsTowardsTheReferenceAsTheKlDoes) {
  const double q = 0.3;
  for (const double logit : {-1.0, 0.2, 2.0}) {
    at::Tensor z = at::tensor({logit}, at::kDouble).requires_grad_(true);
    const at::Tensor log_probs = at::log_softmax(at::cat({z, at::zeros({1}, at::kDouble)}), 0);
    PolicyInputs in;
    in.log_probs = log_probs;
    in.old_log_probs = in.sampler_log_probs = log_probs.detach();
    in.reference_log_probs = at::tensor({std::log(q), std::log(1 - q)}, at::kDouble);
    in.advantages = at::zeros({2}, at::kDouble);
    in.weights = log_probs.detach().exp();  // how often each is sampled
    in.on_policy = at::ones({2}, at::kDouble);
    in.lengths = at::tensor({int64_t{1}, int64_t{1}});
    LossConfig config;
    config.kl_coef = 1;
    config.kl_type = KlType::kK1;
    policy_loss(in, config).loss.backward();
    const double p = 1 / (1 + std::exp(-logit));
    const double expected = p * (1 - p) * (std::log(p / (1 - p)) - std::log(q / (1 - q)));
    EXPECT_NEAR(z.grad().item<double>(), expected, 1e-12) << logit;
    EXPECT_GT(std::fabs(expected), 0.02);
  }
}

TEST(Importance, ByDefaultCorrectsWhatWasSampledFromOlderWeightsAndNothingElse) {
  PolicyInputs in;
  in.log_probs = at::tensor({-1.0, -1.0, -1.0, -1.0}, at::kDouble);
  in.old_log_probs = in.log_probs;
  in.sampler_log_probs = at::tensor({-1.5, -0.5, -3.0, -1.5}, at::kDouble);
  in.advantages = in.weights = at::ones({4}, at::kDouble);
  in.on_policy = at::tensor({0.0, 0.0, 0.0, 1.0}, at::kDouble);
  in.lengths = at::tensor({int64_t{4}});
  const at::Tensor weights = policy_loss(in, LossConfig{}).importance;
  const std::vector<double> expected = {std::exp(0.5), std::exp(-0.5), 2.0, 1.0};
  for (int64_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(weights[i].item<double>(), expected[static_cast<size_t>(i)]) << i;
}

TEST(SftLoss, IsTheWeightedNegativeLogLikelihood) {
  EXPECT_FLOAT_EQ(sft_loss(at::tensor({-1.0f, -3.0f}), at::tensor({0.5f, 0.25f})).item<float>(), 1.25f);
}

}  // namespace
}  // namespace tritonforge::train
