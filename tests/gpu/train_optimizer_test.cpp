// The optimizer's states on a GPU and in the host's memory.
#include <ATen/ATen.h>

#include "gpu/train_fixture.h"
#include "train/flat_adamw.h"
#include "train/pass.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

using tritonforge::gpu::small_config;

// fp32 states against AdamW over the same gradients, one step with NaN among them.
TEST_F(TrainOnGpu, FlatAdamWIsAdamW) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.clip_grad = 0.5;
  const model::Model own = made(shape, at::kBFloat16, device()), reference = made(shape, at::kBFloat16, at::kCPU);
  Gradients gradients{.sums = model::Model(shape, at::kFloat, device())};
  FlatAdamW flat(own, gradients, {}, config);
  AdamW adamw(reference.named_parameters(), config);
  for (int step = 1; step <= 6; ++step) {
    const auto sums = gradients.sums.named_parameters(), parameters = reference.named_parameters();
    for (size_t i = 0; i < sums.size(); ++i) {
      at::Tensor gradient = at::randn(sums[i].second.sizes()).mul_(step == 2 ? 1e-6 : 0.1).to(at::kBFloat16);
      if (step == 4 && i == 3) gradient.flatten()[5] = std::numeric_limits<float>::quiet_NaN();
      sums[i].second.copy_(gradient);
      at::Tensor parameter = parameters[i].second;
      parameter.mutable_grad() = gradient;
    }
    gradients.empty = false;
    adamw.accumulate_gradients();
    const auto a = flat.step(1e-2), b = adamw.step(1e-2);
    EXPECT_EQ(a.skipped.cpu().item<float>(), step == 4 ? 1 : 0);
    EXPECT_EQ(b.skipped.item<float>(), step == 4 ? 1 : 0);
    if (step != 4) {
      const auto norm = b.gradient_norm.item<float>();
      EXPECT_NEAR(a.gradient_norm.cpu().item<float>(), norm, 1e-4 * norm);
    }
    EXPECT_TRUE(gradients.empty);
  }
  const auto a = flat.state(), b = adamw.state();
  ASSERT_EQ(a.size(), b.size());
  std::map<std::string, at::Tensor> expected;
  for (const StatePiece& piece : b) expected[piece.name] = piece.values;
  for (const StatePiece& piece : a) {
    ASSERT_EQ(expected.count(piece.name), 1u) << piece.name;
    const double scale = expected[piece.name].abs().max().item<double>();
    EXPECT_LT((piece.values.cpu() - expected[piece.name]).abs().max().item<double>(), 2e-5 * scale) << piece.name;
  }
  const auto weights = own.named_parameters();
  std::map<std::string, at::Tensor> masters;
  for (const StatePiece& piece : a) masters[piece.name] = piece.values;
  for (const auto& [name, tensor] : weights)
    EXPECT_TRUE(at::equal(tensor, masters["master." + name].to(at::kBFloat16)));
}

// The CPU's update of states in the host's memory is the kernel's of states on the GPU, to the bit: a model of several
// buckets, the last of them not full, one step with NaN among the gradients.
TEST_F(TrainOnGpu, StatesOnTheHostAreThoseOfTheDevice) {
  model::ModelConfig shape = small_config(model::Family::kQwen3);
  shape.vocab_size = 100'000;
  shape.tie_embeddings = false;
  TrainConfig config = sample_train_config();
  config.clip_grad = 0.5;
  struct Side {
    model::Model model;
    Gradients gradients;
    std::unique_ptr<FlatAdamW> adamw;
  };
  std::vector<std::unique_ptr<Side>> sides;
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kCpu}) {
    config.optimizer_state = states;
    sides.push_back(std::make_unique<Side>(
        Side{made(shape, at::kBFloat16, device()), {.sums = model::Model(shape, at::kFloat, device())}, nullptr}));
    Side& side = *sides.back();
    side.adamw = std::make_unique<FlatAdamW>(side.model, side.gradients, parallel::Groups{}, config);
  }
  const int64_t weights = sides[0]->model.arena().numel();
  ASSERT_GT(weights, (gpu::HostExchange::kSlots + 2) * gpu::HostExchange::kBucket) << "places are used again";
  ASSERT_NE(weights % gpu::HostExchange::kBucket, 0);
  for (int step = 1; step <= 6; ++step) {
    const at::Tensor gradient = at::randn_like(sides[0]->gradients.sums.arena()).mul_(step == 2 ? 1e-9 : 0.1);
    if (step == 4) gradient[5].fill_(std::numeric_limits<float>::quiet_NaN());
    std::vector<float> norms;
    for (const auto& side : sides) {
      side->gradients.sums.arena().copy_(gradient);
      side->gradients.empty = false;
      const Optimizer::Applied applied = side->adamw->step(1e-2);
      EXPECT_EQ(applied.skipped.cpu().item<float>(), step == 4 ? 1 : 0);
      norms.push_back(applied.gradient_norm.cpu().item<float>());
    }
    if (step != 4) {
      EXPECT_EQ(norms[0], norms[1]);
    }
    const auto on_device = sides[0]->model.named_parameters(), on_host = sides[1]->model.named_parameters();
    for (size_t i = 0; i < on_device.size(); ++i)
      EXPECT_TRUE(at::equal(on_device[i].second, on_host[i].second)) << on_device[i].first << ", step " << step;
  }
  const StatePieces a = sides[0]->adamw->state(), b = sides[1]->adamw->state();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    EXPECT_TRUE(b[i].name.starts_with("step.") || b[i].values.is_cpu()) << b[i].name;
    EXPECT_TRUE(at::equal(a[i].values.cpu(), b[i].values.cpu())) << a[i].name;
  }
}

// A thousand steps of a hundredth of a rounding step each: as far as fp32 would go, on the mean and within chance.
TEST_F(TrainOnGpu, RoundingAtRandomLosesNothingOnTheMean) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.optimizer_state = OptimizerState::kBf16Sr;
  config.weight_decay = 0;
  config.clip_grad = 0;
  model::Model own(shape, at::kBFloat16, device()), again(shape, at::kBFloat16, device());
  for (model::Model* model : {&own, &again}) {
    model->arena().fill_(1);
    Gradients gradients{.sums = model::Model(shape, at::kBFloat16, device())};
    FlatAdamW flat(*model, gradients, {}, config);
    for (int step = 0; step < 1000; ++step) {
      gradients.sums.arena().fill_(1);
      gradients.empty = false;
      flat.step(1e-5);  // Adam moves by the learning rate; bfloat16 below 1 goes in steps of 0.0039
    }
  }
  const at::Tensor moved = own.embed_tokens().to(at::kFloat);
  EXPECT_NEAR(moved.mean().item<double>(), 0.99, 2e-4);
  EXPECT_GT(moved.std().item<double>(), 1e-3);  // by chance, not all together
  EXPECT_TRUE(at::equal(own.arena(), again.arena()));
}

// A checkpoint's tensors put back go on as if nothing had happened, to the bit.
TEST_F(TrainOnGpu, StatesPutBackGoOn) {
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    TrainConfig config = sample_train_config();
    config.dtype = "bfloat16";
    config.deterministic = true;
    config.optimizer_state = states;
    config.max_tokens_per_micro_batch = 512;
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    const model::ModelConfig shape = small_config(model::Family::kQwen3);
    const auto all = sequences(6, 1.0);
    Trainer straight(config, made(shape, at::kBFloat16, device()), std::nullopt);
    Trainer resumed(config, made(shape, at::kBFloat16, device()), std::nullopt);
    straight.train_step(StepKind::kSft, all);
    straight.train_step(StepKind::kSft, all);
    {
      const at::NoGradGuard no_grad;
      const auto from = straight.optimizer().state();
      auto to = resumed.optimizer().state();
      for (size_t i = 0; i < to.size(); ++i) to[i].values.copy_(from[i].values);
      resumed.model().arena().copy_(straight.model().arena());
      resumed.restore(straight.state());
    }
    const StepMetrics a = straight.train_step(StepKind::kSft, all), b = resumed.train_step(StepKind::kSft, all);
    at::globalContext().setDeterministicAlgorithms(false, false);
    EXPECT_EQ(a.loss, b.loss);
    for (size_t i = 0; i < straight.model().named_parameters().size(); ++i) {
      EXPECT_TRUE(
          at::equal(straight.model().named_parameters()[i].second, resumed.model().named_parameters()[i].second));
    }
  }
}

}  // namespace
}  // namespace tritonforge::train
