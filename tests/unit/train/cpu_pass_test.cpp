#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/parallel.h"
#include "train/pass.h"
#include "train/prefixes.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

model::ModelConfig qwen2() {
  model::ModelConfig config = sample_config(/*tied=*/false);
  config.family = model::Family::kQwen2;
  config.qk_norm = false;
  config.attention_bias = true;
  return config;
}
model::ModelConfig qwen3_with_biases() {
  model::ModelConfig config = sample_config();
  config.attention_bias = true;
  config.num_kv_heads = 1;
  return config;
}

struct Case {
  const char* name;
  model::ModelConfig (*config)();
  double temperature;
  bool entropy;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

MicroBatch batch_of(size_t sequences, double temperature, uint64_t seed = 7) {
  const auto all = sample_sequences(sequences, seed, temperature);
  std::vector<size_t> indices(all.size());
  for (size_t i = 0; i < all.size(); ++i) indices[i] = i;
  return make_micro_batch(all, indices, std::vector<double>(all.size(), 1.0), {}, at::kCPU);
}

struct Ran {
  TargetScores scores;
  std::vector<std::pair<std::string, at::Tensor>> gradients;
};

// Forward and backward with gradients of the scores that are drawn from a seed.
TargetScores run(Pass& pass, const MicroBatch& batch, bool entropy) {
  const auto scores = pass.forward(batch, true);
  auto generator = at::detail::createCPUGenerator(11);
  const at::Tensor of_log_probs = at::empty({batch.target_count}).normal_(0, 1, generator),
                   of_entropy = at::empty({batch.target_count}).normal_(0, 1, generator);
  pass.backward({of_log_probs, entropy ? of_entropy : at::Tensor()});
  return scores;
}

// The pass that has its gradients in an arena.
struct Own {
  Own(const model::Model& model, const TrainConfig& config)
      : gradients{.sums = model::Model(model.config(), at::kFloat, at::kCPU)},
        pass(make_cpu_pass(model, config, &gradients)) {}
  Ran run(const MicroBatch& batch, bool entropy = false) {
    Ran ran{train::run(*pass, batch, entropy), {}};
    for (auto& [name, tensor] : gradients.sums.named_parameters()) ran.gradients.emplace_back(name, tensor.clone());
    return ran;
  }
  void take_gradients() { gradients.empty = true; }  // as an optimizer does after its step
  Gradients gradients;
  std::unique_ptr<Pass> pass;
};

model::Model trained(const model::ModelConfig& config, at::ScalarType dtype = at::kFloat) {
  model::Model model(config, dtype, at::kCPU);
  model.init_random(3, 0.3);
  for (auto& [name, tensor] : model.named_parameters()) {
    if (name.ends_with(".bias") || tensor.dim() == 1) tensor.add_(at::linspace(-0.2, 0.2, tensor.numel()).to(dtype));
    tensor.requires_grad_();
  }
  return model;
}

class CpuPassOf : public testing::TestWithParam<Case> {};

// Autograd through Model::forward, in the same fp32 and in fp64.
TEST_P(CpuPassOf, GradientsAreAutogradsOfEveryParameter) {
  const Case& c = GetParam();
  TrainConfig config = sample_train_config();
  config.lm_head_chunk = 33;
  config.loss.entropy_coef = c.entropy ? 1 : 0;
  const MicroBatch batch = batch_of(9, c.temperature);
  const model::Model own_model = trained(c.config());
  const Ran own = Own(own_model, config).run(batch, c.entropy);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const model::Model model = trained(c.config(), dtype);
    {
      const at::NoGradGuard no_grad;
      const auto to = model.named_parameters(), from = own_model.named_parameters();
      for (size_t i = 0; i < to.size(); ++i) to[i].second.detach().copy_(from[i].second);
    }
    Ran reference{run(*make_autograd_pass(model, config), batch, c.entropy), {}};
    for (auto& [name, tensor] : model.named_parameters()) reference.gradients.emplace_back(name, tensor.grad());
    EXPECT_LT((own.scores.log_probs - reference.scores.log_probs).abs().max().item<double>(), 2e-5);
    EXPECT_LT((own.scores.entropy - reference.scores.entropy).abs().max().item<double>(), 2e-5);
    for (size_t i = 0; i < own.gradients.size(); ++i) {
      const at::Tensor &a = own.gradients[i].second, b = reference.gradients[i].second.to(at::kDouble);
      const double scale = b.abs().max().item<double>();
      EXPECT_GT(scale, 0) << own.gradients[i].first;
      EXPECT_LT((a - b).abs().max().item<double>(), 2e-5 * scale + 1e-6) << own.gradients[i].first << " " << dtype;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CpuPassOf,
                         testing::Values(Case{"qwen3", [] { return sample_config(); }, 1.0, false},
                                         Case{"qwen3_entropy_cold", [] { return sample_config(); }, 0.7, true},
                                         Case{"qwen2_untied", qwen2, 1.0, true},
                                         Case{"qwen3_biases_one_kv_head", qwen3_with_biases, 1.3, false}));

void expect_same(const Ran& a, const Ran& b) {
  EXPECT_TRUE(at::equal(a.scores.log_probs, b.scores.log_probs));
  EXPECT_TRUE(at::equal(a.scores.entropy, b.scores.entropy));
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_TRUE(at::equal(a.gradients[i].second, b.gradients[i].second)) << a.gradients[i].first;
}

TEST(CpuPass, RecomputeChangesNoBit) {
  const MicroBatch batch = batch_of(9, 1.0);
  TrainConfig config = sample_train_config();
  const model::Model model = trained(sample_config());
  std::vector<Ran> runs;
  for (const int64_t layers : {0, 1, 2}) {
    config.recompute_layers = layers;
    runs.push_back(Own(model, config).run(batch));
  }
  expect_same(runs[0], runs[1]);
  expect_same(runs[0], runs[2]);
}

// Of logits that are there, or computed again, over several micro-batches.
TEST(CpuPass, GradientsThatAreKnownBeforeChangeNoBit) {
  const model::Model model = trained(sample_config());
  for (const LossConfig& loss : losses_of_each_token()) {
    ASSERT_TRUE(is_of_each_token(loss));
    for (const int64_t chunk : {7, 33, 1024}) {
      TrainConfig config = sample_train_config();
      config.lm_head_chunk = chunk;
      std::vector<Ran> runs;
      for (const bool once : {true, false}) {
        Own own(model, config);
        Ran& ran = runs.emplace_back();
        for (const size_t sequences : {20, 9}) {
          const MicroBatch batch = batch_of(sequences, 0.7);
          const KnownGradients known = [&](const TargetSlice& targets, const TargetScores& scores) {
            return policy_gradients(sample_inputs(batch, targets, scores), loss);
          };
          ran.scores = own.pass->forward(batch, true, once ? known : nullptr);
          own.pass->backward(once ? ScoreGradients{} : known({0, batch.target_count}, ran.scores));
        }
        for (auto& [name, tensor] : own.gradients.sums.named_parameters()) ran.gradients.emplace_back(name, tensor);
      }
      EXPECT_TRUE(at::equal(runs[0].scores.log_probs, runs[1].scores.log_probs));
      for (size_t i = 0; i < runs[0].gradients.size(); ++i) {
        const at::Tensor &a = runs[0].gradients[i].second, &b = runs[1].gradients[i].second;
        EXPECT_GT(a.abs().max().item<float>(), 0) << runs[0].gradients[i].first;
        EXPECT_TRUE(at::equal(a, b)) << runs[0].gradients[i].first << " chunk " << chunk;
      }
    }
  }
}

TEST(CpuPass, ThreadsChangeNoBit) {
  const MicroBatch batch = batch_of(20, 1.0);
  const TrainConfig config = sample_train_config();
  const model::Model model = trained(sample_config());
  std::vector<Ran> runs;
  for (const int64_t threads : {1, 2, 3}) {
    const kernels::ThreadPool pool(threads);
    runs.push_back(Own(model, config).run(batch));
  }
  expect_same(runs[0], runs[1]);
  expect_same(runs[0], runs[2]);
}

// Nothing of a sequence's log-probs depends on what else is in the micro-batch, on training or on passes before.
TEST(CpuPass, ASequenceHasItsBitsInAnyBatch) {
  const TrainConfig config = sample_train_config();
  const model::Model model = trained(sample_config());
  const auto pass = make_cpu_pass(model, config, nullptr);
  const auto sequences = sample_sequences(12, 5);
  const std::vector<double> weights(sequences.size(), 1.0);
  std::vector<size_t> all(sequences.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const at::Tensor together = pass->forward(make_micro_batch(sequences, all, weights, {}, at::kCPU), true).log_probs;
  int64_t next = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const MicroBatch one = make_micro_batch(sequences, {i}, weights, {}, at::kCPU);
    const at::Tensor alone = pass->forward(one, false).log_probs;
    EXPECT_TRUE(at::equal(alone, together.narrow(0, next, one.target_count))) << "sequence " << i;
    next += one.target_count;
  }
}

// The same sequences, whole and with what they begin with together once, in one order.
struct Shared {
  explicit Shared(const std::vector<TrainSequence>& sequences) {
    std::vector<size_t> indices(sequences.size()), order;
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
    const SharingCosts costs{TrainingFlops(sample_config()), {.unit = 1, .block = 0}};
    const auto segments = SharedPrefixes(sequences, indices, costs).segments(indices);
    for (const Segment& s : segments) {
      if (s.has_targets) order.push_back(s.sequence);
    }
    const std::vector<double> weights(sequences.size(), 1.0);
    shared = pack_micro_batch(sequences, segments, weights, {}, false);
    whole = make_micro_batch(sequences, order, weights, {}, at::kCPU);
  }
  MicroBatch shared, whole;
};

// Scores have the bits that they have without; gradients are summed in another order.
TEST_P(CpuPassOf, SharedPrefixesChangeNoScoreAndNoGradient) {
  const Case& c = GetParam();
  TrainConfig config = sample_train_config();
  config.recompute_layers = c.entropy ? 1 : 0;
  const model::Model model = trained(c.config());
  auto sequences = sample_groups(3, 6, 50, 4);
  for (TrainSequence& s : sequences) s.temperature = c.temperature;
  const Shared batches(sequences);
  EXPECT_GT(batches.shared.shared_tokens, batches.shared.tokens / 2);
  EXPECT_EQ(batches.shared.tokens + batches.shared.shared_tokens, batches.whole.tokens);
  const Ran once = Own(model, config).run(batches.shared, c.entropy),
            each = Own(model, config).run(batches.whole, c.entropy);
  EXPECT_TRUE(at::equal(once.scores.log_probs, each.scores.log_probs));
  EXPECT_TRUE(at::equal(once.scores.entropy, each.scores.entropy));
  for (size_t i = 0; i < once.gradients.size(); ++i) {
    const at::Tensor &a = once.gradients[i].second, &b = each.gradients[i].second;
    EXPECT_GT(b.abs().max().item<float>(), 0) << once.gradients[i].first;
    EXPECT_LT((a - b).norm().item<double>(), 2e-6 * b.norm().item<double>()) << once.gradients[i].first;
  }
}

TEST(CpuPass, ThreadsAndRecomputeChangeNoBitOfSharedPrefixes) {
  const Shared batches(sample_groups(3, 6, 50, 4));
  TrainConfig config = sample_train_config();
  const model::Model model = trained(sample_config());
  std::vector<Ran> runs;
  for (const int64_t threads : {1, 2, 3}) {
    const kernels::ThreadPool pool(threads);
    config.recompute_layers = threads - 1;
    runs.push_back(Own(model, config).run(batches.shared));
  }
  expect_same(runs[0], runs[1]);
  expect_same(runs[0], runs[2]);
}

TEST(CpuPass, MicroBatchesAddUpUntilTheGradientsAreTaken) {
  const TrainConfig config = sample_train_config();
  const model::Model model = trained(sample_config());
  Own own(model, config);
  const MicroBatch batch = batch_of(6, 1.0);
  const Ran once = own.run(batch), twice = own.run(batch);
  for (size_t i = 0; i < once.gradients.size(); ++i) {
    const at::Tensor &a = once.gradients[i].second, &b = twice.gradients[i].second;
    EXPECT_LT((2 * a - b).abs().max().item<float>(), 1e-5 * a.abs().max().item<float>() + 1e-7);
  }
  own.take_gradients();
  expect_same(own.run(batch), once);
}

TEST(CpuPass, FollowsItsWeights) {
  const TrainConfig config = sample_train_config();
  const model::Model model = trained(sample_config());
  Own own(model, config);
  const MicroBatch batch = batch_of(6, 1.0);
  own.run(batch);
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : model.named_parameters()) tensor.detach().mul_(1.25);
  }
  own.pass->weights_changed();
  own.take_gradients();
  expect_same(own.run(batch), Own(model, config).run(batch));
}

}  // namespace
}  // namespace tritonforge::train
