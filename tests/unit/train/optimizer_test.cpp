#include "train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "train/flat_adamw.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

TrainConfig adam_config() {
  TrainConfig config;
  config.weight_decay = 0.1;
  config.beta1 = 0.9;
  config.beta2 = 0.98;
  config.clip_grad = 1.0;
  return config;
}

void set_gradients(at::Tensor& w, at::Tensor& b, int step) {
  w.mutable_grad() = ((at::arange(6).reshape({2, 3}) - 2.5) * 0.3 * step).to(w.scalar_type());
  b.mutable_grad() = (at::tensor({0.7f, -1.1f}) * (step % 2 ? -1 : 1)).to(b.scalar_type());
}

// torch.optim.AdamW of Python's torch 2.11 with clip_grad_norm_(1), decay 0.1 on the matrix and 0 on the vector,
// lr 0.01 * step: gradient norm, then the six weights and two biases after each step.
constexpr float kReference[5][9] = {{1.80969608f, 0.509500027f, -1.23874998f, 2.00800014f, 0.114875004f, -0.759249985f,
                                     1.4885f, 0.25999999f, -0.50999999f},
                                    {2.82842708f, 0.528436065f, -1.21631742f, 2.02393913f, 0.0946902409f, -0.777686536f,
                                     1.46556795f, 0.263269365f, -0.513269365f},
                                    {3.98434424f, 0.556859791f, -1.18265939f, 2.04787636f, 0.064397119f, -0.805362463f,
                                     1.43116224f, 0.273704857f, -0.523704886f},
                                    {5.18652058f, 0.594749331f, -1.13781166f, 2.0798018f, 0.0240225606f, -0.842257977f,
                                     1.38532054f, 0.278520256f, -0.528520286f},
                                    {6.40897799f, 0.642029345f, -1.08186889f, 2.11965656f, -0.0263513234f,
                                     -0.888300419f, 1.32814026f, 0.28929916f, -0.53929919f}};

TEST(AdamW, EqualsTorch) {
  at::Tensor w = at::tensor({0.5f, -1.25f, 2.0f, 0.125f, -0.75f, 1.5f}).reshape({2, 3}), b = at::tensor({0.25f, -0.5f});
  AdamW optimizer({{"w", w}, {"b", b}}, adam_config());
  for (int step = 1; step <= 5; ++step) {
    set_gradients(w, b, step);
    optimizer.accumulate_gradients();
    const auto applied = optimizer.step(0.01 * step);
    EXPECT_NEAR(applied.gradient_norm.item<float>(), kReference[step - 1][0], 1e-5);
    EXPECT_EQ(applied.skipped.item<float>(), 0);
    const at::Tensor now = at::cat({w.detach().flatten(), b.detach()});
    for (int i = 0; i < 8; ++i)
      EXPECT_NEAR(now[i].item<float>(), kReference[step - 1][i + 1], 2e-6) << "step " << step << " value " << i;
    EXPECT_FALSE(w.grad().defined());
  }
}

TEST(AdamW, Bfloat16ParametersKeepWhatRoundsAway) {
  at::Tensor w = at::ones({4, 4}, at::kBFloat16), wide = at::ones({4, 4});
  TrainConfig config = adam_config();
  config.weight_decay = 0;
  config.clip_grad = 0;  // would scale a gradient that stayed away again
  AdamW narrow({{"w", w}}, config), reference({{"w", wide}}, config);
  for (int step = 0; step < 40; ++step) {              // each update is far below bfloat16's spacing at 1
    const double gradient = step % 3 == 0 ? -0.5 : 1;  // changes: a gradient that stays for the next step shows
    w.mutable_grad() = at::full({4, 4}, gradient, at::kBFloat16);
    wide.mutable_grad() = at::full({4, 4}, gradient);
    narrow.accumulate_gradients();
    narrow.step(3e-4);
    reference.step(3e-4);
  }
  ASSERT_NE(w[0][0].item<float>(), 1);
  const at::Tensor master = narrow.state()[0].values;
  EXPECT_EQ(narrow.state()[0].name, "master.w");
  EXPECT_TRUE(at::allclose(master, wide.detach()));
  EXPECT_TRUE(at::equal(w.detach(), wide.detach().to(at::kBFloat16)));
}

TEST(AdamW, Bfloat16GradientsAreSummedInFloat32) {
  at::Tensor w = at::zeros({1, 1}, at::kBFloat16);
  TrainConfig config = adam_config();
  config.clip_grad = 0;
  AdamW optimizer({{"w", w}}, config);
  for (int i = 0; i < 512; ++i) {  // 256 + 1 is not a bfloat16
    w.mutable_grad() = at::ones({1, 1}, at::kBFloat16);
    optimizer.accumulate_gradients();
  }
  EXPECT_EQ(optimizer.step(0).gradient_norm.item<float>(), 512.0f);
}

TEST(AdamW, ANonFiniteNormChangesNothing) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    at::Tensor w = at::ones({2, 3}, dtype), b = at::ones({2}, dtype);
    AdamW optimizer({{"w", w}, {"b", b}}, adam_config());
    set_gradients(w, b, 1);
    optimizer.accumulate_gradients();
    optimizer.step(0.01);
    std::vector<at::Tensor> before{w.detach().clone(), b.detach().clone()};
    for (const StatePiece& piece : optimizer.state()) before.push_back(piece.values.clone());
    set_gradients(w, b, 2);
    w.mutable_grad()[0][1] = std::numeric_limits<float>::infinity();
    optimizer.accumulate_gradients();
    const auto applied = optimizer.step(0.01);
    EXPECT_EQ(applied.skipped.item<float>(), 1);
    EXPECT_FALSE(std::isfinite(applied.gradient_norm.item<float>()));
    EXPECT_TRUE(at::equal(before[0], w.detach()));
    EXPECT_TRUE(at::equal(before[1], b.detach()));
    size_t i = 2;
    for (const StatePiece& piece : optimizer.state()) EXPECT_TRUE(at::equal(before[i++], piece.values)) << piece.name;
    set_gradients(w, b, 2);  // and the next step is a normal one
    optimizer.accumulate_gradients();
    EXPECT_EQ(optimizer.step(0.01).skipped.item<float>(), 0);
    EXPECT_FALSE(at::equal(before[0], w.detach()));
  }
}

TEST(AdamW, GradientsBelowTheClipAreLeftAlone) {
  // Gradients of very different sizes: AdamW forgives a factor that is the same at every step.
  at::Tensor clipped = at::ones({2, 3}), free = at::ones({2, 3});
  TrainConfig config = adam_config();
  AdamW with({{"w", clipped}}, config);
  config.clip_grad = 0;
  AdamW without({{"w", free}}, config);
  for (const double size : {0.3, 0.001, 0.1}) {
    const at::Tensor gradient = (at::arange(6).reshape({2, 3}) - 2.5) * 0.1 * size;
    clipped.mutable_grad() = gradient.clone();
    free.mutable_grad() = gradient.clone();
    EXPECT_LT(with.step(0.01).gradient_norm.item<float>(), 1.0f);
    without.step(0.01);
    EXPECT_TRUE(at::equal(clipped.detach(), free.detach())) << size;
  }
}

TEST(AdamW, AParameterWithoutAGradientIsOnlyDecayed) {
  at::Tensor used = at::ones({2, 2}), unused = at::ones({2, 2});
  AdamW optimizer({{"used", used}, {"unused", unused}}, adam_config());
  used.mutable_grad() = at::ones({2, 2});
  optimizer.step(0.5);
  EXPECT_TRUE(at::allclose(unused.detach(), at::full({2, 2}, 0.95)));
}

// The same gradients, one step with NaN among them.
TEST(FlatAdamW, IsAdamWOverAnArena) {
  TrainConfig config = sample_train_config();
  config.clip_grad = 0.5;
  const model::Model own = sample_model(), reference = sample_model();
  Gradients gradients{.sums = model::Model(own.config(), at::kFloat, at::kCPU)};
  FlatAdamW flat(own, gradients, {}, config);
  AdamW adamw(reference.named_parameters(), config);
  for (int step = 1; step <= 6; ++step) {
    const auto sums = gradients.sums.named_parameters(), parameters = reference.named_parameters();
    for (size_t i = 0; i < sums.size(); ++i) {
      at::Tensor gradient = at::randn(sums[i].second.sizes()).mul_(step == 2 ? 1e-6 : 0.1);
      if (step == 4 && i == 3) gradient.flatten()[5] = std::numeric_limits<float>::quiet_NaN();
      sums[i].second.copy_(gradient);
      at::Tensor parameter = parameters[i].second;
      parameter.mutable_grad() = gradient;
    }
    gradients.empty = false;
    const auto a = flat.step(1e-2), b = adamw.step(1e-2);
    EXPECT_EQ(a.skipped.item<float>(), step == 4 ? 1 : 0);
    EXPECT_EQ(b.skipped.item<float>(), step == 4 ? 1 : 0);
    if (step != 4) {
      EXPECT_NEAR(a.gradient_norm.item<float>(), b.gradient_norm.item<float>(), 1e-5);
    }
    EXPECT_TRUE(gradients.empty);
  }
  EXPECT_LT(largest_difference(own, reference), 1e-6);
  const StatePieces a = flat.state(), b = adamw.state();
  ASSERT_EQ(a.size(), b.size());
  std::map<std::string, at::Tensor> expected;
  for (const StatePiece& piece : b) expected[piece.name] = piece.values;
  for (const StatePiece& piece : a) {
    ASSERT_EQ(expected.count(piece.name), 1u) << piece.name;
    EXPECT_EQ(piece.values.sizes(), expected[piece.name].sizes());
    EXPECT_LT((piece.values - expected[piece.name]).abs().max().item<double>(), 1e-6) << piece.name;
  }
}

// Where the states are the host's anyway, both names mean the same.
TEST(FlatAdamW, StatesOfTheCpuAreFp32OnTheCpu) {
  TrainConfig config = sample_train_config();
  Trainer plain(config, sample_model(), std::nullopt);
  config.optimizer_state = OptimizerState::kCpu;
  Trainer own(config, sample_model(), std::nullopt);
  for (uint64_t step = 0; step < 4; ++step) {
    const auto sequences = sample_sequences(5, step);
    EXPECT_EQ(plain.train_step(StepKind::kSft, sequences).loss, own.train_step(StepKind::kSft, sequences).loss);
  }
  EXPECT_EQ(largest_difference(plain.model(), own.model()), 0);
  const StatePieces a = plain.optimizer().state(), b = own.optimizer().state();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(at::equal(a[i].values, b[i].values)) << a[i].name;
  }
}

}  // namespace
}  // namespace tritonforge::train
