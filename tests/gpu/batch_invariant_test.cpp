// The same bits in every batch: the kernels that a batch-invariant engine takes, its answers whatever runs beside them,
// and the trainer's log-probs of those answers.
#include <numeric>

#include "gpu/engine_fixture.h"
#include "train/pass.h"
#include "train/prefixes.h"
#include "train/trainer.h"
#include "unit/train/sample_model.h"

namespace tritonforge::gpu {
namespace {

class BatchInvariant : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string other = no_hopper(0); !other.empty()) GTEST_SKIP() << other;
    workspace = Buffer(32 << 20, 0);
    check_cuda(api().gemm_open(&handle, workspace.as<void>(), workspace.bytes()));
  }
  void TearDown() override {
    if (handle != nullptr) check_cuda(api().gemm_close(handle));
    GpuTest::TearDown();
  }
  Buffer workspace;
  Gemm* handle = nullptr;
};

constexpr int64_t kAll = 700;  // rows

// Some of the rows alone give what they give among all, by whichever tiles; k as of the models' matrices, and not a
// multiple of a tile's.
TEST_F(BatchInvariant, AProductOfSomeRowsHasTheBitsOfAll) {
  struct Case {
    int64_t n, k;
    bool bias, fp32, swiglu;
  };
  for (const Case& c : {Case{1152, 896, true, false, false}, Case{896, 4864, false, false, false},
                        Case{9728, 896, false, false, true}, Case{1000, 904, false, true, false},
                        Case{4096, 12288, false, false, false}, Case{15200, 1024, false, true, false}}) {
    const at::Tensor x = random_bf16({kAll, c.k}), w = random_bf16({c.n, c.k}, 0.05), bias = random_bf16({c.n});
    const Buffer dx = upload(x), dw = upload(w), db = upload(bias), scratch = like({kAll, c.n}, at::kBFloat16);
    const int64_t width = c.swiglu ? c.n / 2 : c.n;
    const auto type = c.fp32 ? at::kFloat : at::kBFloat16;
    const auto product = [&](int64_t first, int64_t rows, const Buffer& y) {
      return GemmArgs{.y = y.as<void>(),
                      .x = dx.as() + first * c.k,
                      .w = dw.as(),
                      .bias = c.bias ? db.as() : nullptr,
                      .m = rows,
                      .n = c.n,
                      .k = c.k,
                      .fp32_out = c.fp32,
                      .swiglu_scratch = c.swiglu ? scratch.as() : nullptr,
                      .batch_invariant = true};
    };
    const Buffer whole = like({kAll, width}, type);
    const GemmArgs of_all = product(0, kAll, whole);
    check_cuda(api().gemm(handle, &of_all, stream));
    const at::Tensor all = download(whole, {kAll, width}, type);
    EXPECT_TRUE(at::isfinite(all).all().item<bool>());
    for (const int64_t rows : {1, 2, 5, 8, 9, 16, 30, 33, 64, 100, 128, 129, 255, 256, 300, 512}) {
      const int64_t first = kAll - rows - rows % 7;
      const Buffer some = like({rows, width}, type);
      const GemmArgs args = product(first, rows, some);
      const at::Tensor expected = all.narrow(0, first, rows);
      for (const bool tuned : {false, true}) {
        if (tuned) check_cuda(api().gemm_tune(handle, &args, 1, stream));
        check_cuda(api().gemm(handle, &args, stream));
        EXPECT_TRUE(at::equal(download(some, {rows, width}, type), expected))
            << rows << " of " << c.n << " x " << c.k << " by " << api().gemm_plan(handle, &args);
      }
      for (const int tokens : {8, 16, 32, 64, 128, 256}) {
        for (const int groups : {1, 2, 3}) {
          if (tokens < rows && tokens < 64) continue;
          if ((groups == 3 && tokens == 256) || (groups == 1 && tokens > 64)) continue;
          check_cuda(api().gemm_hopper(&args, groups, tokens, 1, stream));
          EXPECT_TRUE(at::equal(download(some, {rows, width}, type), expected))
              << rows << " of " << c.n << " x " << c.k << " by tiles of " << groups * 64 << " x " << tokens;
        }
      }
    }
  }
}

// What the trainer and large prompts do, and what decodes do.
TEST_F(BatchInvariant, AnAddedProductIsRoundedFirst) {
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{{896, 4864}, {4096, 4096}}) {
    const at::Tensor x = random_bf16({kAll, k}), w = random_bf16({n, k}, 0.05), before = random_bf16({kAll, n}, 3);
    const Buffer dx = upload(x), dw = upload(w), y = like({kAll, n}, at::kBFloat16), sum = upload(before);
    GemmArgs args{.y = y.as<void>(), .x = dx.as(), .w = dw.as(), .m = kAll, .n = n, .k = k, .batch_invariant = true};
    check_cuda(api().gemm(handle, &args, stream));
    args.y = sum.as<void>();
    args.accumulate = true;
    check_cuda(api().gemm(handle, &args, stream));
    EXPECT_TRUE(at::equal(download(sum, {kAll, n}, at::kBFloat16), before + download(y, {kAll, n}, at::kBFloat16)));
  }
}

TEST_F(BatchInvariant, ANormOfOneRowHasTheBitsOfMany) {
  for (const int64_t d : {64, 896, 1000, 4096, 5120, 8192, 12288}) {
    const int64_t rows = 1500, alone = 40;
    const at::Tensor x = random_bf16({rows, d}, 3), weight = random_bf16({d});
    const Buffer dx = upload(x), dw = upload(weight), all = like({rows, d}, at::kBFloat16),
                 few = like({alone, d}, at::kBFloat16);
    check_cuda(api().rms_norm(all.as(), dx.as(), dw.as(), rows, d, 1e-6f, stream));
    for (int64_t row = 0; row < alone; ++row)
      check_cuda(api().rms_norm(few.as() + row * d, dx.as() + row * d, dw.as(), 1, d, 1e-6f, stream));
    EXPECT_TRUE(at::equal(download(few, {alone, d}, at::kBFloat16),
                          download(all, {rows, d}, at::kBFloat16).narrow(0, 0, alone)))
        << d;
  }
}

TEST_F(BatchInvariant, WhatNoTileCanIsRefused) {
  const Buffer some = like({64, 64}, at::kBFloat16);
  const GemmArgs args{.y = some.as<void>(),
                      .x = some.as(),
                      .w = some.as(),
                      .m = 64,
                      .n = 64,
                      .k = 64,
                      .w_transposed = true,
                      .batch_invariant = true};
  EXPECT_NE(api().gemm(handle, &args, stream), 0);
  EXPECT_NE(std::string_view(api().last_error()).find("batch-invariant product of 64 x 64 x 64"),
            std::string_view::npos);
}

}  // namespace
}  // namespace tritonforge::gpu

namespace tritonforge::engine {
namespace {

class BatchInvariantEngine : public EngineOnGpu {
 protected:
  void SetUp() override {
    EngineOnGpu::SetUp();
    if (IsSkipped()) return;
    if (const std::string other = gpu::no_hopper(0); !other.empty()) GTEST_SKIP() << other;
  }
  static EngineOptions invariant() {
    EngineOptions chosen = options();
    chosen.batch_invariant = true;
    return chosen;
  }
  static void expect_same(const std::map<std::string, Output>& found, const std::map<std::string, Output>& expected,
                          std::string_view what) {
    for (const auto& [id, output] : expected) {
      const Sample &a = found.at(id).samples[0], &b = output.samples[0];
      EXPECT_EQ(a.output_ids, b.output_ids) << what << ", request " << id;
      EXPECT_EQ(a.log_probs, b.log_probs) << what << ", request " << id;
    }
  }
};

// One sequence at a time, twenty at once, prompts in pieces of 64 tokens beside decodes, sequences put back and
// computed again, prefixes that the cache has and has not, drafts, graphs and none, tuned products and untuned ones.
TEST_F(BatchInvariantEngine, AnswersAreTheSameInEveryBatch) {
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2}) {
    const auto together = run(invariant(), family);
    expect_near_the_reference(together, family);
    const auto with = [&](std::string_view what, auto&& change) {
      EngineOptions other = invariant();
      change(other);
      expect_same(run(other, family), together, what);
    };
    with("one at a time", [](EngineOptions& o) { o.max_running = 1; });
    with("seven at a time", [](EngineOptions& o) { o.max_running = 7; });
    with("pieces of prompts", [](EngineOptions& o) { o.max_step_tokens = 64; });
    with("put back", [](EngineOptions& o) { o.kv_cache_tokens = 1536; });
    with("no reuse", [](EngineOptions& o) { o.reuse_prefixes = false; });
    with("drafts", [](EngineOptions& o) { o.draft_tokens = 4; });
    with("no graphs", [](EngineOptions& o) { o.cuda_graphs = o.step_ahead = false; });
    with("tuned", [](EngineOptions& o) { o.tune_gemms = true; });
  }
}

TEST_F(BatchInvariantEngine, AnswersOfAModelInFp8AreTheSameInEveryBatch) {
  in_fp8 = true;
  EngineOptions one = invariant(), all = invariant();
  one.weight_dtype = all.weight_dtype = WeightDtype::kFp8;
  one.max_running = 1;
  expect_same(run(one), run(all), "FP8");
}

// Sequences as training has them, each with its prompt.
std::vector<TrainSequence> to_train_on(const std::vector<Request>& asked,
                                       const std::map<std::string, Output>& outputs) {
  std::vector<TrainSequence> all;
  for (const Request& request : asked) {
    const Sample& sample = outputs.at(request.id).samples[0];
    TrainSequence s;
    s.tokens = request.prompt_ids;
    s.tokens.insert(s.tokens.end(), sample.output_ids.begin(), sample.output_ids.end());
    const auto behind = [&](auto& to, auto of_prompt, const auto& of_answer) {
      to.assign(request.prompt_ids.size(), of_prompt);
      to.insert(to.end(), of_answer.begin(), of_answer.end());
    };
    behind(s.loss_mask, false, std::vector<bool>(sample.output_ids.size(), true));
    behind(s.old_log_probs, 0.0F, sample.log_probs);
    behind(s.advantages, 0.0F, std::vector<float>(sample.output_ids.size(), 1.0F));
    behind(s.weight_versions, -1, std::vector<int64_t>(sample.output_ids.size(), 0));
    s.temperature = request.sampling.temperature;
    all.push_back(std::move(s));
  }
  return all;
}

// Each answer for itself, all in one micro-batch, and behind prompts that are computed once for several.
TEST_F(BatchInvariantEngine, ATrainerFindsTheSamplersLogProbs) {
  for (const auto family : {model::Family::kQwen3, model::Family::kQwen2}) {
    const auto outputs = run(invariant(), family);
    std::vector<Request> asked;
    for (int64_t i = 0; i < kRequests; ++i) asked.push_back(request(i));
    const std::vector<TrainSequence> all = to_train_on(asked, outputs);

    at::manual_seed(5);
    const auto weights = model(at::kBFloat16, at::Device(at::kCUDA, 0), family);
    train::TrainConfig config = train::sample_train_config();
    config.deterministic = true;
    config.lm_head_chunk = 100;
    const auto pass = train::make_gpu_pass(*weights, config, nullptr);
    const auto expect_equal = [&](const train::MicroBatch& batch, std::string_view what) {
      const at::Tensor found = pass->forward(batch, false).log_probs.cpu(), said = batch.sampler_log_probs.cpu();
      EXPECT_TRUE(at::equal(found, said))
          << what << ": " << found.ne(said).sum().item<int64_t>() << " of " << said.numel() << " differ, by "
          << (found - said).abs().max().item<float>() << " at most";
    };
    const std::vector<double> weight(all.size(), 1.0);
    for (size_t i = 0; i < all.size(); ++i)
      expect_equal(train::make_micro_batch(all, {i}, weight, {}, weights->device()), "alone");
    std::vector<size_t> indices(all.size());
    std::iota(indices.begin(), indices.end(), size_t{0});
    expect_equal(train::make_micro_batch(all, indices, weight, {}, weights->device()), "packed");
    const train::SharingCosts costs{train::TrainingFlops(weights->config()), {.unit = gpu::kPage, .block = 0}};
    const train::MicroBatch shared = train::to_device(
        train::pack_micro_batch(all, train::SharedPrefixes(all, indices, costs).segments(indices), weight, {}, true),
        weights->device());
    EXPECT_GT(shared.shared_tokens, 4 * 90);
    expect_equal(shared, "behind shared prompts");
  }
}

// As a step of training says it.
TEST_F(BatchInvariantEngine, AStepsDifferenceToItsSamplerIsZero) {
  const auto outputs = run(invariant());
  std::vector<Request> asked;
  for (int64_t i = 0; i < kRequests; ++i) asked.push_back(request(i));
  const std::vector<TrainSequence> all = to_train_on(asked, outputs);
  for (const bool deterministic : {true, false}) {
    at::manual_seed(5);
    train::TrainConfig config = train::sample_train_config();
    config.device = "cuda";
    config.dtype = "bfloat16";
    config.deterministic = deterministic;
    config.max_tokens_per_micro_batch = 2048;
    train::Trainer trainer(config, std::move(*model(at::kBFloat16, at::Device(at::kCUDA, 0))), std::nullopt);
    const StepMetrics metrics = trainer.train_step(StepKind::kRl, all);
    ASSERT_TRUE(metrics.policy.has_value());
    if (deterministic) EXPECT_EQ(metrics.policy->train_rollout_logprob_abs_diff_max, 0);
    else EXPECT_GT(metrics.policy->train_rollout_logprob_abs_diff_max, 0);  // cuBLASLt sums in other orders
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
}

}  // namespace
}  // namespace tritonforge::engine
