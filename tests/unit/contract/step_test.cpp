#include "contract/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tritonforge {
namespace {

using testing::HasSubstr;

std::string refusal(const char* text) {
  try {
    step_request_from_json(parse_json(text, "test"));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(StepRequest, ReadsSftAndRl) {
  const auto sft = step_request_from_json(
      parse_json(R"({"kind": "sft", "step": 3, "sequences": [{"tokens": [4, 5], "loss_mask": [0, true]}]})", "t"));
  EXPECT_EQ(sft.kind, StepKind::kSft);
  EXPECT_EQ(sft.sequences[0].tokens, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(sft.sequences[0].loss_mask, (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(sft.sequences[0].weight_versions.size(), 2u);
  const auto rl = step_request_from_json(
      parse_json(R"({"kind": "rl", "step": 9, "lease_id": "step-9", "buffer": "http://b:1/"})", "t"));
  EXPECT_EQ(rl.kind, StepKind::kRl);
  EXPECT_EQ(rl.buffer, "http://b:1");
}

TEST(StepRequest, NamesWhatIsWrong) {
  EXPECT_THAT(refusal("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(refusal(R"({"kind": "sft"})"), HasSubstr("'step' is missing"));
  EXPECT_THAT(refusal(R"({"kind": "sfd", "step": 1})"), HasSubstr("unknown kind 'sfd' (did you mean 'sft'?)"));
  EXPECT_EQ(refusal(R"({"kind": "sft", "step": 1})"), "accepted");  // its sequences came ahead
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": 7})"), HasSubstr("'sequences' must be a list"));
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": [7]})"), HasSubstr("sequences[0] must be an object"));
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": [{"tokens": [1, 2.5], "loss_mask": [0, 1]}]})"),
              HasSubstr("tokens[1] must be an integer"));
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": [{"tokens": [1], "loss_mask": [2]}]})"),
              HasSubstr("not 0 or 1"));
  EXPECT_THAT(refusal(R"({"kind": "rl", "step": 1, "lease_id": "../x", "buffer": "http://b"})"),
              HasSubstr("not a path segment"));
}

TEST(StepRequest, ReadsWhatIsWritten) {
  const StepRequest rl{StepKind::kRl, 9, "step-9", "http://b:1", {}};
  const StepRequest read = step_request_from_json(parse_json(to_json(rl).dump(), "t"));
  EXPECT_EQ(read.kind, rl.kind);
  EXPECT_EQ(read.step, rl.step);
  EXPECT_EQ(read.lease_id, rl.lease_id);
  EXPECT_EQ(read.buffer, rl.buffer);
}

TEST(StepRequest, SftInJsonAndInBinaryIsTheSame) {
  const auto json = step_request_from_json(parse_json(
      R"({"kind": "sft", "step": 3, "sequences": [{"tokens": [4, 5, 6], "loss_mask": [0, 0, 1], "id": "x"},
                                                  {"tokens": [7], "loss_mask": [0]}]})",
      "t"));
  const auto binary = sft_step_from_binary(to_binary({.step = 3, .sequences = json.sequences}));
  EXPECT_EQ(binary.kind, StepKind::kSft);
  EXPECT_EQ(binary.step, 3);
  EXPECT_EQ(binary.sequences, json.sequences);
}

StepMetrics sample_metrics() {
  StepMetrics metrics;
  metrics.step = 4;
  metrics.kind = StepKind::kRl;
  double next = 0.5;
  metrics.policy.emplace();
  metrics.batch.emplace();
  for_each_figure(metrics, [&](const char*, double& value) { value = next++; });
  return metrics;
}

TEST(StepMetrics, EveryFigureIsReadAsItWasWritten) {
  const StepMetrics metrics = sample_metrics();
  const Json json = to_json(metrics);
  EXPECT_EQ(json.at("kind"), "rl");
  EXPECT_EQ(json.size(), 42u);  // step, kind, 25 of every step, 11 towards the sampler, 4 of the lease
  EXPECT_EQ(step_result_from_json(parse_json(json.dump(), "t")).metrics, metrics);
  StepMetrics sft = metrics;
  sft.kind = StepKind::kSft;
  sft.policy.reset();
  sft.batch.reset();
  EXPECT_EQ(to_json(sft).size(), 27u);
  EXPECT_EQ(step_result_from_json(to_json(sft)).metrics, sft);
}

TEST(StepMetrics, WhatIsNotFiniteIsNull) {
  StepMetrics metrics;
  metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  const Json json = to_json(metrics);
  EXPECT_TRUE(json.at("grad_norm").is_null());
  EXPECT_TRUE(std::isnan(step_result_from_json(json).metrics.grad_norm));
}

TEST(StepResult, ReadsWhatIsWritten) {
  const StepResult result{sample_metrics(), "/c/step-00000004", "no room", true};
  const StepResult read = step_result_from_json(parse_json(to_json(result).dump(), "t"));
  EXPECT_EQ(read.metrics, result.metrics);
  EXPECT_EQ(read.checkpoint, result.checkpoint);
  EXPECT_EQ(read.checkpoint_error, result.checkpoint_error);
  EXPECT_TRUE(read.repeated);
  EXPECT_FALSE(to_json(StepResult{}).contains("repeated"));
  EXPECT_THROW(step_result_from_json({{"step", 1}, {"kind", "rlx"}}), Error);
}

}  // namespace
}  // namespace tritonforge
