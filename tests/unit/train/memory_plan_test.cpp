#include "train/memory_plan.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "base/error.h"
#include "model/stages.h"
#include "parallel/peer_copies.h"
#include "train/gpu/products.h"

namespace tritonforge::train {
namespace {

using testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

model::ModelConfig qwen3_8b() {
  model::ModelConfig c;
  c.num_layers = 36;
  c.hidden_size = 4096;
  c.num_heads = 32;
  c.num_kv_heads = 8;
  c.head_dim = 128;
  c.intermediate_size = 12288;
  c.vocab_size = 151936;
  return c;
}
constexpr int64_t kParameters = 8'190'735'360;

TrainConfig config_of(OptimizerState states, int64_t tokens) {
  TrainConfig config;
  config.optimizer_state = states;
  config.max_tokens_per_micro_batch = tokens;
  return config;
}

std::string refusal(const TrainConfig& config, int64_t free, int64_t host_free = kUnknownHost) {
  try {
    plan_memory(qwen3_8b(), kParameters, config, free, host_free);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(MemoryPlan, ComputesAgainAsLittleAsFits) {
  const TrainConfig config = config_of(OptimizerState::kBf16Sr, 8192);
  MemoryPlan before = plan_memory(qwen3_8b(), kParameters, config, 200 * kGiB);
  EXPECT_EQ(before.recompute.layers + before.recompute.qkv_layers, 0) << "there is room for all";
  for (int64_t free = before.total() - 1; free > 60 * kGiB; free -= kGiB / 2) {
    const MemoryPlan plan = plan_memory(qwen3_8b(), kParameters, config, free);
    EXPECT_LE(plan.total(), free);
    EXPECT_GE(plan.recompute.layers, before.recompute.layers);
    EXPECT_TRUE(plan.recompute.layers == 0 || plan.recompute.layers + plan.recompute.qkv_layers == 36)
        << "q, k and v of every layer go first";
    // One layer less does not fit.
    TrainConfig less = config;
    less.recompute_layers = std::max<int64_t>(0, plan.recompute.layers - 1);
    less.recompute_qkv_layers = plan.recompute.layers > 0 ? 36 - less.recompute_layers : plan.recompute.qkv_layers - 1;
    EXPECT_NE(refusal(less, free), "");
    before = plan;
  }
  EXPECT_GT(before.recompute.layers, 0);
}

// Of data-parallel ranks, what the copy engines bring before it is added.
TEST(MemoryPlan, CountsTheMemoryThatOthersGradientsAreCopiedTo) {
  TrainConfig config = config_of(OptimizerState::kBf16Sr, 8192);
  config.recompute_layers = 0;
  const auto workspace = [&](int64_t dp, bool peer_copies) {
    config.parallel.dp = dp;
    config.parallel.peer_copies = peer_copies;
    return plan_memory(qwen3_8b(), kParameters, config, 1000 * kGiB).workspace;
  };
  EXPECT_EQ(workspace(2, true) - workspace(2, false), parallel::kCopiesStaging);
  EXPECT_EQ(workspace(1, true), workspace(1, false));
}

// recompute_layers is of the whole model's size, a pipeline's stage may have fewer.
TEST(MemoryPlan, AStageComputesNoMoreLayersAgainThanItHas) {
  TrainConfig config = config_of(OptimizerState::kBf16Sr, 4096);
  config.parallel.pp = 4;
  config.recompute_layers = 12;
  const model::ModelConfig stage = model::stage_of(qwen3_8b(), {1, 4});
  ASSERT_LT(stage.num_layers, 12);
  const MemoryPlan plan = plan_memory(stage, kParameters / 4, config, 200 * kGiB);
  EXPECT_EQ(plan.recompute.layers, stage.num_layers);
  EXPECT_EQ(plan.recompute.qkv_layers, 0);
}

TEST(MemoryPlan, WhatDoesNotFitSaysWhatWould) {
  const int64_t free = 60 * kGiB;
  TrainConfig kept = config_of(OptimizerState::kBf16Sr, 8192);
  kept.recompute_layers = 0;
  EXPECT_THAT(refusal(kept, free), HasSubstr("micro-batches of 8192 tokens need"));
  EXPECT_THAT(refusal(kept, free), HasSubstr("recompute_layers "));
  EXPECT_THAT(refusal(config_of(OptimizerState::kFp32, 8192), free), HasSubstr("optimizer_state bf16_sr would"));
  const std::string longer = refusal(config_of(OptimizerState::kBf16Sr, 131072), free);
  ASSERT_THAT(longer, HasSubstr("max_tokens_per_micro_batch "));
  const int64_t tokens = std::stoll(longer.substr(longer.find("max_tokens_per_micro_batch ") + 27));
  EXPECT_EQ(refusal(config_of(OptimizerState::kBf16Sr, tokens), free), "");
  EXPECT_NE(refusal(config_of(OptimizerState::kBf16Sr, tokens + 128), free), "");
  EXPECT_THAT(refusal(config_of(OptimizerState::kFp32, 1), kGiB), HasSubstr("no setting does"));
}

// Of the stage behind the first one, in pipelines of four and of eight.
TEST(MemoryPlan, AStageHasABufferForEachGradientOnItsWayAndItsWorkspaceOnce) {
  const model::ModelConfig stage = model::stage_of(qwen3_8b(), {1, 4, 1});
  TrainConfig config = config_of(OptimizerState::kBf16Sr, 8192);
  config.recompute_layers = 0;
  config.loss.kl_coef = 0.1;
  const auto plan_of = [&](int64_t pp) {
    config.parallel.pp = pp;
    return plan_memory(stage, kParameters / 4, config, 1000 * kGiB);
  };
  const MemoryPlan four = plan_of(4), eight = plan_of(8);
  EXPECT_EQ(eight.workspace - four.workspace, 4 * 8192 * stage.hidden_size * 2);
  const int64_t each = (eight.reference - four.reference) / 4;
  EXPECT_GT(each, 0);
  EXPECT_GT(four.reference - 3 * each, gpu::kProductsWorkspace) << "what is there once";
}

TEST(MemoryPlan, StatesOfTheCpuAreTheHosts) {
  TrainConfig config = config_of(OptimizerState::kCpu, 8192);
  const int64_t free = 70 * kGiB, host = 200 * kGiB;
  const MemoryPlan plan = plan_memory(qwen3_8b(), kParameters, config, free, host);
  EXPECT_EQ(plan.gradients, 4 * kParameters);
  EXPECT_EQ(plan.states, 0);
  EXPECT_NEAR(static_cast<double>(plan.host), 12.0 * kParameters, 0.2 * kGiB) << "and a little to send through";
  EXPECT_THAT(plan.lines(), testing::Contains(HasSubstr("of the host's memory, of 200.00 for this rank")));
  config.parallel.dp = 2;
  EXPECT_LT(plan_memory(qwen3_8b(), kParameters, config, free, host).host, plan.host / 1.9);
  config.parallel.dp = 1;

  const std::string refused = refusal(config, free, 64 * kGiB);
  EXPECT_THAT(refused, HasSubstr("optimizer_state cpu needs 91.7 GiB of the host's memory for each rank, and 64.0"));
  EXPECT_THAT(refused, HasSubstr("optimizer_state bf16_sr would"));
  EXPECT_THAT(refusal(config_of(OptimizerState::kFp32, 8192), free, host), HasSubstr("optimizer_state cpu would"));
  EXPECT_THAT(refusal(config_of(OptimizerState::kFp32, 8192), free, kGiB),
              testing::Not(HasSubstr("optimizer_state cpu would")));
}

TEST(MemoryPlan, TheWholeModelOfRankZeroIsNotLeft) {
  MemoryPlan plan = plan_memory(qwen3_8b(), kParameters, config_of(OptimizerState::kBf16Sr, 8192), 130 * kGiB);
  const auto left = [&] { return plan.lines().back(); };
  const std::string all = left();
  plan.whole = 2 * kParameters;
  EXPECT_THAT(plan.lines(), testing::Contains(HasSubstr("whole model     15.26 GiB")));
  EXPECT_LT(plan.total() + plan.whole, plan.free);
  EXPECT_NE(left(), all);
  EXPECT_TRUE(puts_together_on_gpu(10, 21));
  EXPECT_FALSE(puts_together_on_gpu(10, 20));
}

TEST(OutOfMemory, IsToldInOneLineWithWhatWouldNeedLess) {
  TrainConfig config;
  config.max_tokens_per_micro_batch = 128;
  std::string line;
  try {
    at::empty({int64_t{1} << 50});
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_out_of_memory(error)) << error.what();
    line = out_of_memory(error, config, nullptr, at::kCPU);
  }
  EXPECT_THAT(line, testing::StartsWith("out of memory with "));
  EXPECT_THAT(line, HasSubstr("max_tokens_per_micro_batch (now 128)"));
  EXPECT_THAT(line, testing::Not(HasSubstr("the plan")));
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const MemoryPlan plan{.activations = int64_t{3} << 30, .free = int64_t{80} << 30};
  EXPECT_THAT(out_of_memory(std::bad_alloc(), config, &plan, at::kCPU),
              HasSubstr("(the plan: 3.0 GiB of 80.0, 3.0 of it activations)"));
  EXPECT_TRUE(is_out_of_memory(std::bad_alloc()));
  EXPECT_FALSE(is_out_of_memory(Error(ErrorKind::kUnavailable, "the buffer is full")));
}

}  // namespace
}  // namespace tritonforge::train
