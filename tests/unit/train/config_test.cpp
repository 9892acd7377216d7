#include "train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/config.h"
#include "train/schedule.h"

namespace tritonforge::train {
namespace {

std::string refusal(const std::string& yaml) {
  try {
    load_config<TrainConfig>(parse_yaml(yaml, "train.yaml"), "train.yaml").validate_job();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TrainConfig, WhatIsWrittenIsReadBack) {
  const auto config = load_config<TrainConfig>(
      parse_yaml("model: m\nlr: 3e-4\nloss: {kl_coef: 0.01, kl_type: k1}\n", "x"), "x");
  EXPECT_EQ(config.loss.kl_type, KlType::kK1);
  EXPECT_EQ(dump_config(load_config<TrainConfig>(parse_yaml(dump_config(config), "y"), "y")), dump_config(config));
}

TEST(TrainConfig, RefusesByName) {
  EXPECT_THAT(refusal("learning_rate: 1"), testing::HasSubstr("unknown key 'learning_rate'"));
  EXPECT_THAT(refusal("model: m\noptimizer_state: bf16_sr\ndtype: bfloat16"), testing::HasSubstr("the device is cpu"));
  EXPECT_THAT(refusal("model: m\noptimizer_state: bf16_sr\ndtype: float32\ndevice: cuda:0"),
              testing::HasSubstr("models in bfloat16, not float32"));
  EXPECT_THAT(refusal("model: m\noptimizer_state: bf16_sr\ndtype: bfloat16\ndevice: cuda:0\nautograd: true"),
              testing::HasSubstr("set autograd to false"));
  EXPECT_EQ(refusal("model: m\noptimizer_state: bf16_sr\ndtype: bfloat16\ndevice: cuda:0"), "accepted");
  EXPECT_THAT(refusal("model: m\noptimizer_state: cpu\ndtype: float32\ndevice: cuda:0"),
              testing::HasSubstr("optimizer_state cpu is for models in bfloat16, not float32"));
  EXPECT_EQ(refusal("model: m\noptimizer_state: cpu\ndtype: bfloat16\ndevice: cuda:0\nparallel: {dp: 2}"), "accepted");
  EXPECT_EQ(refusal("model: m\noptimizer_state: cpu\ndtype: float32"), "accepted");
  EXPECT_THAT(refusal("optimizer_state: cpus"), testing::HasSubstr("did you mean 'cpu'"));
  EXPECT_THAT(refusal("loss: {clip_hi: 0.3}"), testing::HasSubstr("did you mean 'clip_high'"));
  EXPECT_THAT(refusal("dtype: bfloat"), testing::HasSubstr("did you mean 'bfloat16'"));
  EXPECT_THAT(refusal("schedule: cosinus"), testing::HasSubstr("did you mean 'cosine'"));
  EXPECT_THAT(refusal("lr: 1e-7"), testing::HasSubstr("min_lr"));
  EXPECT_THAT(refusal("model: m\ncheckpoint_interval: 5"), testing::HasSubstr("no checkpoint folder"));
  EXPECT_THAT(refusal("model: m\ncheckpoint: c\ncheckpoint_interval: 5\nstop_interval: 2"),
              testing::HasSubstr("checkpoint_interval 5 is no multiple of stop_interval 2: the next one is 6"));
  EXPECT_EQ(refusal("model: m\ncheckpoint: c\ncheckpoint_interval: 4\nstop_interval: 2"), "accepted");
  EXPECT_THAT(refusal("loss: {tis_cap: 2, ratio_base: sampler}"), testing::HasSubstr("tis_cap"));
  EXPECT_THAT(refusal("loss: {ratio_base: sampler}"), testing::HasSubstr("tis_cap"));  // it is on by default
  EXPECT_THAT(refusal("loss: {kl_coef: 0.1, kl_type: k1, ratio_base: sampler, tis_cap: 0}"),
              testing::HasSubstr("kl_type k1"));
  EXPECT_THAT(refusal("loss: {objective: ppo}"), testing::HasSubstr("'loss.objective': unknown value 'ppo'"));
  EXPECT_THAT(refusal("lm_head_chunk: 0"), testing::HasSubstr("'lm_head_chunk' must be at least 1"));
  EXPECT_THAT(refusal("beta2: 1"), testing::HasSubstr("'beta2' must be at least 0 and below 1, not 1"));
  EXPECT_THAT(refusal("loss: {kl_type: k4}"), testing::HasSubstr("'loss.kl_type': unknown value 'k4'"));
  EXPECT_THAT(refusal("lr: 1e-4"), testing::HasSubstr("model is missing"));
}

TEST(TrainConfig, AParallelDegreeThatIsNotThereIsRefusedByName) {
  EXPECT_THAT(refusal("parallel: {ep: 2}"), testing::HasSubstr("parallel.ep 2 does not divide dp * cp = 1"));
  EXPECT_THAT(refusal("parallel: {ep: 3, dp: 2, cp: 2}"),
              testing::HasSubstr("parallel.ep 3 does not divide dp * cp = 4"));
  EXPECT_THAT(refusal("model: m\nparallel: {ep: 2, dp: 2}"),
              testing::HasSubstr("parallel.ep 2: a dense model has no experts to share out"));
  EXPECT_THAT(refusal("parallel: {cp_form: rings}"), testing::HasSubstr("'ring'"));
  EXPECT_THAT(refusal("model: m\ndevice: cuda\nparallel: {pp: 2, pp_chunks: 2}"),
              testing::HasSubstr("parallel.pp_chunks 2 on cuda"));
  EXPECT_THAT(refusal("parallel: {tp: 0}"), testing::HasSubstr("at least 1"));
  EXPECT_THAT(refusal("parallel: {pp: 2, pp_chunks: 0}"), testing::HasSubstr("parallel.pp_chunks 0: at least 1"));
  EXPECT_THAT(refusal("parallel: {pp_chunks: 2}"), testing::HasSubstr("1 without a pipeline (parallel.pp is 1)"));
}

TEST(Schedule, WarmsUpThenFallsToTheMinimum) {
  TrainConfig config;
  config.lr = 1.0;
  config.min_lr = 0.1;
  config.warmup_steps = 4;
  config.total_steps = 24;
  EXPECT_DOUBLE_EQ(learning_rate(config, 1), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 14), 0.55);  // half way
  EXPECT_DOUBLE_EQ(learning_rate(config, 24), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 1000), 0.1);
  for (int step = 4; step < 24; ++step) EXPECT_GT(learning_rate(config, step), learning_rate(config, step + 1));
  config.schedule = Schedule::kConstant;
  EXPECT_DOUBLE_EQ(learning_rate(config, 2), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 1000), 1.0);
  config.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate(config, 1), 1.0);
}

}  // namespace
}  // namespace tritonforge::train
