#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/core.h"
#include "engine/make_runner.h"
#include "unit/engine/tiny_model.h"

namespace tritonforge::engine {
namespace {

TEST(MemoryPlan, IsALineAPart) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  const MemoryPlan plan{.weights = 15 * kGiB,
                        .cache = 110 * kGiB,
                        .cache_tokens = 800000,
                        .graphs = kGiB / 4,
                        .workspace = kGiB,
                        .left = 12 * kGiB};
  EXPECT_EQ(plan.total(), 126 * kGiB + kGiB / 4);
  EXPECT_EQ(plan.lines(), (std::vector<std::string>{
                              "weights       15.00 GiB", "KV cache     110.00 GiB (800000 tokens)",
                              "graph pool     0.25 GiB", "workspace      1.00 GiB", "left          12.00 GiB"}));
}

TEST(MemoryPlan, TellsWhatTheHostKeeps) {
  EngineOptions options = small_options();
  options.kv_host_tokens = 100;
  const Core core(options, tiny_model(), nullptr);
  const MemoryPlan& plan = core.info().memory;
  EXPECT_EQ(plan.host_tokens, 112) << "whole blocks";
  EXPECT_EQ(plan.host, 112 * 2 * 2 * 2 * 16 * 4);
  EXPECT_EQ(plan.lines().back(), "on host        0.00 GiB (112 tokens)");

  options.kv_host_tokens = int64_t{1} << 40;
  EXPECT_THAT([&] { Core(options, tiny_model(), nullptr); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("--kv-host-tokens 1099511627776 takes")));
  options.reuse_prefixes = false;
  EXPECT_THROW(options.validate(), Error);
}

TEST(MemoryPlan, OfTheCpuIsWeightsTheirPanelsAndCache) {
  const Core core(small_options(), tiny_model(), nullptr);
  const MemoryPlan& plan = core.info().memory;
  EXPECT_EQ(plan.weights, static_cast<int64_t>(core.model().arena().nbytes()) + core.model().packed_bytes());
  EXPECT_EQ(plan.cache_tokens, 4096);
  EXPECT_EQ(plan.cache, (4096 + kBlockSize) * 2 * 2 * 2 * 16 * 4);  // keys, values of 2 layers, 2 heads of 16 floats
  EXPECT_EQ(plan.total(), plan.weights + plan.cache);
  EXPECT_GT(plan.left, 0);

  EngineOptions fp8 = small_options();
  fp8.kv_cache_dtype = CacheDtype::kFp8;
  EXPECT_EQ(Core(fp8, tiny_model(), nullptr).info().memory.cache, (4096 + kBlockSize) * 2 * 2 * 2 * (16 + 1));
}

// Sized from memory: of bfloat16 heads of 128 numbers FP8 holds 256 / 129 as many tokens.
TEST(MemoryPlan, AnFp8CacheHoldsTwiceTheTokens) {
  model::ModelConfig config = tiny_config();
  config.head_dim = 128;
  config.max_position = 1 << 20;
  EngineOptions options;
  options.max_running = 1024;
  const auto tokens = [&](CacheDtype cache) {
    options.kv_cache_dtype = cache;
    Sizes sizes = size_step(options, config, at::kCPU);
    size_cache(sizes, options, config, cache_dtype(options, at::kBFloat16), at::kCPU, int64_t{1} << 30);
    return static_cast<double>((sizes.blocks - 1) * kBlockSize);
  };
  EXPECT_NEAR(tokens(CacheDtype::kFp8) / tokens(CacheDtype::kAuto), 256.0 / 129, 1e-3);
}

TEST(MemoryPlan, AnFp8CacheIsRefusedWhereNothingReadsIt) {
  const auto refused = [](EngineOptions options, at::ScalarType dtype) {
    options.kv_cache_dtype = CacheDtype::kFp8;
    try {
      make_runner(options, model::Model(tiny_config(), dtype, at::kCPU));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(refused(small_options(), at::kHalf), ::testing::HasSubstr("--kv-cache-dtype fp8_e4m3"));
  EngineOptions rows = small_options();
  rows.rows_attention = true;
  EXPECT_THAT(refused(rows, at::kFloat), ::testing::HasSubstr("--kv-cache-dtype fp8_e4m3 needs the own kernels"));
}

}  // namespace
}  // namespace tritonforge::engine
