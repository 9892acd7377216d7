// The trainer's own passes and optimizer on a GPU against autograd and AdamW in fp32 on the CPU.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cmath>
#include <future>

#include "base/clock.h"
#include "base/filesystem.h"
#include "bench/qwen3_8b.h"
#include "contract/step.h"
#include "gpu/train_fixture.h"
#include "model/weights.h"
#include "train/checkpoint.h"
#include "train/gpu/layers.h"
#include "train/pass.h"
#include "train/prefixes.h"
#include "train/service.h"
#include "train/trainer.h"
#include "unit/train/sample_model.h"

namespace tritonforge::train {
namespace {

using tritonforge::gpu::small_config;

MicroBatch batch_of(const std::vector<TrainSequence>& all, at::Device device) {
  std::vector<size_t> indices(all.size());
  for (size_t i = 0; i < all.size(); ++i) indices[i] = i;
  return make_micro_batch(all, indices, std::vector<double>(all.size(), 1.0), {}, device);
}

struct Ran {
  TargetScores scores;
  std::vector<std::pair<std::string, at::Tensor>> gradients;  // on the CPU, in double
};

// Two micro-batches, gradients of the scores drawn from a seed.
Ran run(Pass& pass, const std::vector<std::pair<std::string, at::Tensor>>& gradients_of, Gradients* arena,
        const std::vector<MicroBatch>& batches, bool entropy) {
  Ran ran;
  auto generator = at::detail::createCPUGenerator(11);
  for (const MicroBatch& batch : batches) {
    const TargetScores scores = pass.forward(batch, true);
    const auto drawn = [&] { return at::empty({batch.target_count}).normal_(0, 1, generator).to(batch.ids.device()); };
    const at::Tensor a = drawn(), b = drawn();
    pass.backward({a, entropy ? b : at::Tensor()});
    if (!ran.scores.log_probs.defined()) ran.scores = {scores.log_probs.cpu(), scores.entropy.cpu()};
  }
  for (const auto& [name, tensor] : gradients_of) {
    const at::Tensor of = arena == nullptr ? tensor.grad() : tensor;
    ran.gradients.emplace_back(name, of.to(at::kCPU, at::kDouble));
  }
  return ran;
}

Ran run_own(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<MicroBatch>& batches,
            at::Device device, bool entropy) {
  const model::Model model = made(shape, at::kBFloat16, device);
  Gradients gradients{.sums = model::Model(shape, at::kFloat, device)};
  gradients.sums.arena().fill_(std::numeric_limits<float>::quiet_NaN());  // nothing of before counts
  const auto pass = make_gpu_pass(model, config, &gradients);
  return run(*pass, gradients.sums.named_parameters(), &gradients, batches, entropy);
}

Ran run_own(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<TrainSequence>& all,
            at::Device device, bool entropy) {
  return run_own(shape, config, {batch_of(all, device), batch_of({all[1]}, device)}, device, entropy);
}

Ran run_autograd(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<MicroBatch>& batches,
                 at::ScalarType dtype, at::Device device, bool entropy) {
  const model::Model model = made(shape, dtype, device);
  for (auto& [name, tensor] : model.named_parameters()) tensor.requires_grad_();
  return run(*make_autograd_pass(model, config), model.named_parameters(), nullptr, batches, entropy);
}

Ran run_autograd(const model::ModelConfig& shape, const TrainConfig& config, const std::vector<TrainSequence>& all,
                 at::ScalarType dtype, at::Device device, bool entropy) {
  return run_autograd(shape, config, {batch_of(all, device), batch_of({all[1]}, device)}, dtype, device, entropy);
}

double relative(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

// As near to fp32 as autograd in bfloat16 is, tensor by tensor.
void expect_autograds(const char* what, const model::ModelConfig& shape, const TrainConfig& config,
                      const std::vector<TrainSequence>& all, at::Device device) {
  const bool entropy = config.loss.entropy_coef > 0;
  const Ran own = run_own(shape, config, all, device, entropy);
  const Ran exact = run_autograd(shape, config, all, at::kFloat, at::kCPU, entropy);
  const Ran rounded = run_autograd(shape, config, all, at::kBFloat16, device, entropy);
  EXPECT_LT((own.scores.log_probs - exact.scores.log_probs).abs().mean().item<double>(), 0.01) << what;
  EXPECT_LT((own.scores.entropy - exact.scores.entropy).abs().mean().item<double>(), 0.01) << what;
  for (size_t i = 0; i < own.gradients.size(); ++i) {
    const double error = relative(own.gradients[i].second, exact.gradients[i].second),
                 of_autograd = relative(rounded.gradients[i].second, exact.gradients[i].second);
    EXPECT_LT(error, 1.2 * of_autograd + 2e-3) << what << " " << own.gradients[i].first;
  }
}

struct Case {
  const char* name;
  model::Family family;
  int64_t head_dim;
  bool tied;
  double temperature;
  bool entropy;
};

TEST_F(TrainOnGpu, GradientsAreAutograds) {
  for (const Case& c : {Case{"qwen3", model::Family::kQwen3, 128, false, 1.0, false},
                        Case{"qwen3 tied, cold, entropy", model::Family::kQwen3, 64, true, 0.7, true},
                        Case{"qwen2", model::Family::kQwen2, 64, false, 1.0, true}}) {
    model::ModelConfig shape = small_config(c.family);
    shape.head_dim = c.head_dim;
    shape.tie_embeddings = c.tied;
    TrainConfig config = sample_train_config();
    config.lm_head_chunk = 100;
    config.loss.entropy_coef = c.entropy ? 1 : 0;
    expect_autograds(c.name, shape, config, sequences(7, c.temperature), device());
  }
}

// More than attention takes in one launch.
TEST_F(TrainOnGpu, GradientsOfThousandsOfSequencesAreAutograds) {
  model::ModelConfig shape = small_config(model::Family::kQwen3);
  shape.head_dim = 64;
  TrainConfig config = sample_train_config();
  config.lm_head_chunk = 1000;
  expect_autograds("2,100 sequences", shape, config, sequences(2100, 1.0, 2, 6), device());
}

// Samples of prompts whose shared tokens end in the middle of a block of keys, and of a page; one of no group.
std::vector<TrainSequence> samples_of_prompts() {
  const auto prompts = sequences(2, 1.0, 170, 200), answers = sequences(9, 1.0, 40, 150);
  std::vector<TrainSequence> all{answers[0]};
  for (size_t i = 1; i < answers.size(); ++i) {
    TrainSequence s = prompts[i % 2];
    s.loss_mask.assign(s.tokens.size(), 0);
    s.advantages.assign(s.tokens.size(), 0);
    s.weight_versions.assign(s.tokens.size(), -1);
    const TrainSequence& answer = answers[i];
    s.tokens.insert(s.tokens.end(), answer.tokens.begin(), answer.tokens.end());
    s.loss_mask.insert(s.loss_mask.end(), answer.loss_mask.begin(), answer.loss_mask.end());
    s.old_log_probs.insert(s.old_log_probs.end(), answer.old_log_probs.begin(), answer.old_log_probs.end());
    s.advantages.insert(s.advantages.end(), answer.advantages.begin(), answer.advantages.end());
    s.weight_versions.insert(s.weight_versions.end(), answer.weight_versions.begin(), answer.weight_versions.end());
    all.push_back(std::move(s));
  }
  return all;
}

// As near to fp32's gradients of whole sequences as those of whole sequences are, and the same bits again.
TEST_F(TrainOnGpu, SharedPrefixesHaveTheGradientsOfWholeSequences) {
  const auto all = samples_of_prompts();
  std::vector<size_t> indices(all.size()), order;
  for (size_t i = 0; i < all.size(); ++i) indices[i] = i;
  const std::vector<double> weights(all.size(), 1.0);
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2}) {
    const model::ModelConfig shape = small_config(family);
    const SharingCosts costs{TrainingFlops(shape), {.unit = tritonforge::gpu::kPage, .block = 0}};
    const auto segments = SharedPrefixes(all, indices, costs).segments(indices);
    order.clear();
    for (const Segment& s : segments) {
      if (s.has_targets) order.push_back(s.sequence);
    }
    const MicroBatch shared = to_device(pack_micro_batch(all, segments, weights, {}, true), device()),
                     whole = make_micro_batch(all, order, weights, {}, device()),
                     on_cpu = make_micro_batch(all, order, weights, {}, at::kCPU);
    EXPECT_GT(shared.shared_tokens, 6 * 128);
    TrainConfig config = sample_train_config();
    config.deterministic = true;
    const Ran once = run_own(shape, config, std::vector{shared}, device(), false),
              again = run_own(shape, config, std::vector{shared}, device(), false),
              each = run_own(shape, config, std::vector{whole}, device(), false),
              exact = run_autograd(shape, config, std::vector{on_cpu}, at::kFloat, at::kCPU, false);
    EXPECT_LT((once.scores.log_probs - exact.scores.log_probs).abs().mean().item<double>(), 0.01);
    EXPECT_TRUE(at::equal(once.scores.log_probs, again.scores.log_probs));
    for (size_t i = 0; i < once.gradients.size(); ++i) {
      const auto& [name, found] = once.gradients[i];
      EXPECT_LT(relative(found, exact.gradients[i].second),
                1.2 * relative(each.gradients[i].second, exact.gradients[i].second) + 2e-3)
          << name;
      EXPECT_TRUE(at::equal(found, again.gradients[i].second)) << name;
    }
  }
}

TEST_F(TrainOnGpu, SharedPrefixesTakeTheStepsOfWholeSequences) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.device = "cuda";
  config.dtype = "bfloat16";
  config.lr = 1e-4;
  config.max_tokens_per_micro_batch = 1024;
  Trainer shared(config, made(shape, at::kBFloat16, device()), std::nullopt);
  config.share_prefixes = false;
  Trainer whole(config, made(shape, at::kBFloat16, device()), std::nullopt);
  const auto all = samples_of_prompts();
  for (int step = 0; step < 5; ++step) {
    const StepMetrics a = shared.train_step(StepKind::kRl, all), b = whole.train_step(StepKind::kRl, all);
    EXPECT_EQ(a.tokens + a.shared_tokens, b.tokens);
    EXPECT_GT(a.shared_tokens, b.tokens / 5);
    EXPECT_NEAR(a.loss, b.loss, 0.01 * (1 + std::fabs(b.loss))) << "step " << step;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 0.03 * b.grad_norm) << "step " << step;
    EXPECT_NEAR(a.entropy, b.entropy, 0.02) << "step " << step;
  }
}

TEST_F(TrainOnGpu, RecomputeAndPaddingChangeNoBit) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  TrainConfig config = sample_train_config();
  config.deterministic = true;
  const auto all = sequences(5, 1.0);
  std::vector<Ran> runs;
  for (const auto& [layers, qkv_layers] : {std::pair{0, 0}, {2, 0}, {3, 0}, {0, 3}, {1, 1}}) {
    config.recompute_layers = layers;
    config.recompute_qkv_layers = qkv_layers;
    runs.push_back(run_own(shape, config, all, device(), false));
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
  for (size_t r = 1; r < runs.size(); ++r) {
    EXPECT_TRUE(at::equal(runs[0].scores.log_probs, runs[r].scores.log_probs));
    for (size_t i = 0; i < runs[0].gradients.size(); ++i)
      EXPECT_TRUE(at::equal(runs[0].gradients[i].second, runs[r].gradients[i].second)) << runs[0].gradients[i].first;
  }
}

// A checkpoint that is written from a copy while the trainer goes on is of its step; a trainer that goes on from it
// takes the same steps to the bit.
TEST_F(TrainOnGpu, ACheckpointBehindTheStepsGoesOn) {
  const TemporaryFolder folder("train_gpu_test");
  model::save_model(made(small_config(model::Family::kQwen3), at::kBFloat16, at::kCPU), folder.path() / "model");
  write_file_atomic(folder.path() / "model" / "tokenizer.json", "{}");
  for (const auto states : {OptimizerState::kFp32, OptimizerState::kBf16Sr, OptimizerState::kCpu}) {
    TrainConfig config = sample_train_config();
    config.model = folder.path() / "model";
    config.device = "cuda";
    config.dtype = "bfloat16";
    config.deterministic = true;
    config.optimizer_state = states;
    config.max_tokens_per_micro_batch = 512;
    const auto all = sequences(6, 1.0);
    const auto straight = make_trainer(config);
    CheckpointStore store(folder.path() / std::string(name_of(states)), 2);
    for (int step = 0; step < 2; ++step) {  // the second into the memory of the first
      straight->train_step(StepKind::kSft, all);
      store.collect(true);
      store.save_behind(*straight, {}, [] {});
    }
    straight->train_step(StepKind::kSft, all);
    const auto path = store.collect(true);
    ASSERT_TRUE(path);
    const auto resumed = resume_trainer(config, *path);
    EXPECT_EQ(resumed->state().step, 2);
    EXPECT_EQ(resumed->train_step(StepKind::kSft, all).loss, straight->state().last.loss);
    EXPECT_EQ(model::weight_checksums(resumed->model()), model::weight_checksums(straight->model()));
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
}

// Its tensors are those of fp32: what one wrote the other reads, and takes the steps that the first would have taken.
TEST_F(TrainOnGpu, CheckpointsOfHostStatesAndOfDeviceStatesAreTheSame) {
  const TemporaryFolder folder("train_gpu_test");
  model::save_model(made(small_config(model::Family::kQwen3), at::kBFloat16, at::kCPU), folder.path() / "model");
  write_file_atomic(folder.path() / "model" / "tokenizer.json", "{}");
  TrainConfig config = sample_train_config();
  config.model = folder.path() / "model";
  config.device = "cuda";
  config.dtype = "bfloat16";
  config.deterministic = true;
  config.max_tokens_per_micro_batch = 512;
  const auto all = sequences(6, 1.0);
  for (const auto& [before, after] : {std::pair{OptimizerState::kFp32, OptimizerState::kCpu},
                                      std::pair{OptimizerState::kCpu, OptimizerState::kFp32}}) {
    config.optimizer_state = before;
    const auto straight = make_trainer(config);
    for (int step = 0; step < 2; ++step) straight->train_step(StepKind::kSft, all);
    CheckpointStore store(folder.path() / std::string(name_of(before)), 1);
    store.save(*straight, {});
    config.optimizer_state = after;
    const auto resumed = resume_trainer(config, store.latest());
    for (const auto& trainer : {&straight, &resumed}) (*trainer)->train_step(StepKind::kSft, all);
    EXPECT_EQ(model::weight_checksums(resumed->model()), model::weight_checksums(straight->model()));
    const StatePieces a = straight->optimizer().state(), b = resumed->optimizer().state();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].values.cpu(), b[i].values.cpu())) << a[i].name;
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

// On any thread, as the server's: CUDA begins each with the first GPU.
TEST_F(TrainOnGpu, ATrainerOnTheSecondGpuIsTheFirstsTwin) {
  int devices = 0;
  tritonforge::gpu::check_cuda(tritonforge::gpu::open_cuda_library().device_count(&devices));
  if (devices < 2) GTEST_SKIP() << "one GPU";
  const TemporaryFolder folder("train_gpu_test");
  model::save_model(made(small_config(model::Family::kQwen3), at::kBFloat16, at::kCPU), folder.path() / "model");
  ServiceOptions options;
  options.config = sample_train_config();
  options.config.model = folder.path() / "model";
  options.config.dtype = "bfloat16";
  options.config.deterministic = true;
  options.config.max_tokens_per_micro_batch = 512;
  std::vector<double> losses;  // of two steps on each
  for (const char* device : {"cuda:0", "cuda:1"}) {
    options.config.device = device;
    TrainerService service(options);
    const auto step = [&service](int64_t number) {
      service.set_up_thread();
      const StepRequest request{.kind = StepKind::kSft, .step = number, .sequences = sequences(6, 1.0)};
      return service.step([&request] { return request; }).metrics.loss;
    };
    losses.push_back(step(1));
    losses.push_back(std::async(std::launch::async, step, 2).get());
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
  EXPECT_EQ(losses[2], losses[0]);
  EXPECT_EQ(losses[3], losses[1]);
}

// What the trainer says it takes is what it takes, and every step says how long its parts took and what it reached.
void expect_used_as_planned(at::Device device) {
  const auto used = [&] { return kernels::used_memory(device); };
  for (const auto& [states, layers, qkv_layers] : {std::tuple{OptimizerState::kBf16Sr, 0, 0},
                                                   {OptimizerState::kFp32, 0, 4},
                                                   {OptimizerState::kBf16Sr, 3, 1},
                                                   {OptimizerState::kCpu, 0, 0}}) {
    at::getDeviceAllocator(at::kCUDA)->emptyCache();
    TrainConfig config;
    config.device = "cuda";
    config.optimizer_state = states;
    config.recompute_layers = layers;
    config.recompute_qkv_layers = qkv_layers;
    config.max_tokens_per_micro_batch = 6144;
    auto model = random_qwen3_8b("cuda", 4);
    const int64_t before = used();
    const auto started = Clock::now();
    Trainer trainer(config, std::move(*model), std::nullopt, device_rate(device, at::kBFloat16));
    const auto all = sequences(16, 1.0, 300, 400);
    StepMetrics metrics;
    for (int step = 0; step < 3; ++step) metrics = trainer.train_step(StepKind::kSft, all);
    const double off = static_cast<double>(used() - before) / static_cast<double>(trainer.memory_plan()->total()) - 1;
    for (const std::string& line : trainer.memory_plan()->lines()) fmt::print("{}\n", line);
    fmt::print("{:+.2f} % used\n", 100 * off);
    EXPECT_NEAR(off, 0, 0.05);

    double parts = 0;
    for (const double seconds : metrics.part_seconds) parts += seconds;
    EXPECT_GT(metrics.part_seconds[static_cast<size_t>(StepPart::kForward)], 0);
    EXPECT_GT(metrics.part_seconds[static_cast<size_t>(StepPart::kBackward)], 0);
    EXPECT_GT(metrics.part_seconds[static_cast<size_t>(StepPart::kUpdate)], 0);
    EXPECT_LT(parts, seconds_since(started));
    EXPECT_GT(metrics.mfu, 0.01);
    EXPECT_LT(metrics.mfu, 1);
    EXPECT_LT(metrics.of_product_rate, 1);
    fmt::print("{}\n", figures_json(metrics).dump());
  }
}

TEST_F(TrainOnGpu, TheMemoryPlanIsWhatIsUsed) {
  // In a process of its own: the plan counts the code of kernels and the libraries' workspaces, which the tests before
  // this one have loaded in theirs.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        expect_used_as_planned(device());
        std::exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

// 200 steps of own passes and of autograd, both in bfloat16 with fp32 states: as near to each other as either is to
// fp32 on the CPU.
TEST_F(TrainOnGpu, LearnsAsAutogradOver200Steps) {
  model::ModelConfig shape = small_config(model::Family::kQwen3);
  shape.num_layers = 2;
  TrainConfig config = sample_train_config();
  config.dtype = "bfloat16";
  config.lr = 2e-4;
  const auto trainer = [&](bool autograd, at::ScalarType dtype, at::Device on) {
    TrainConfig own = config;
    own.autograd = autograd;
    return std::make_unique<Trainer>(own, made(shape, dtype, on), std::nullopt);
  };
  const auto own = trainer(false, at::kBFloat16, device()), reference = trainer(true, at::kBFloat16, device()),
             exact = trainer(false, at::kFloat, at::kCPU);
  std::vector<double> of_own, of_reference;  // how far the losses are from fp32's
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const auto all = sequences(4, 1.0, 20, 60 + static_cast<size_t>(step % 5));
    const double a = own->train_step(StepKind::kSft, all).loss, b = reference->train_step(StepKind::kSft, all).loss,
                 c = exact->train_step(StepKind::kSft, all).loss;
    of_own.push_back(a - c);
    of_reference.push_back(b - c);
    if (step == 0) first = a;
    last = a;
  }
  const auto root_mean_square = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  fmt::print("loss {:.4f} -> {:.4f}; off fp32's by {:.2e} own, {:.2e} autograd\n", first, last,
             root_mean_square(of_own), root_mean_square(of_reference));
  EXPECT_LT(last, first / 2) << "nothing was learned";
  EXPECT_LT(root_mean_square(of_own), 1.5 * root_mean_square(of_reference) + 1e-3);
}

// The head's gradient in the forward pass is the one of the backward pass: to the bit where there is one chunk, else
// summed over the chunks in the other order.
TEST_F(TrainOnGpu, GradientsThatAreKnownBefore) {
  const model::ModelConfig shape = small_config(model::Family::kQwen3);
  const auto all = sequences(5, 0.8);
  const MicroBatch batch = batch_of(all, device());
  const model::Model model = made(shape, at::kBFloat16, device());
  for (const LossConfig& loss : losses_of_each_token()) {
    ASSERT_TRUE(is_of_each_token(loss));
    const KnownGradients known = [&](const TargetSlice& targets, const TargetScores& scores) {
      return policy_gradients(sample_inputs(batch, targets, scores), loss);
    };
    for (const int64_t chunk : {64, 4096}) {
      TrainConfig config = sample_train_config();
      config.deterministic = true;
      config.lm_head_chunk = chunk;
      std::vector<std::unique_ptr<Gradients>> runs;
      for (const bool once : {true, false}) {
        runs.push_back(std::make_unique<Gradients>(Gradients{.sums = model::Model(shape, at::kFloat, device())}));
        const auto pass = make_gpu_pass(model, config, runs.back().get());
        const TargetScores scores = pass->forward(batch, true, once ? known : nullptr);
        pass->backward(once ? ScoreGradients{} : known({0, batch.target_count}, scores));
      }
      const auto a = runs[0]->sums.named_parameters(), b = runs[1]->sums.named_parameters();
      for (size_t i = 0; i < a.size(); ++i) {
        if (chunk == 4096) EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
        else EXPECT_LT(relative(a[i].second.to(at::kDouble), b[i].second.to(at::kDouble)), 1e-5) << a[i].first;
      }
    }
  }
}

}  // namespace
}  // namespace tritonforge::train
