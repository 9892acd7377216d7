#include "train/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tritonforge::train {
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
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1})"), HasSubstr("'sequences' must be a list"));
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": [7]})"), HasSubstr("sequences[0] must be an object"));
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": [{"tokens": [1, 2.5], "loss_mask": [0, 1]}]})"),
              HasSubstr("tokens[1] must be an integer"));
  EXPECT_THAT(refusal(R"({"kind": "sft", "step": 1, "sequences": [{"tokens": [1], "loss_mask": [2]}]})"),
              HasSubstr("not 0 or 1"));
  EXPECT_THAT(refusal(R"({"kind": "rl", "step": 1, "lease_id": "../x", "buffer": "http://b"})"),
              HasSubstr("not a path segment"));
}

TEST(StepMetricsJson, WhatIsNotFiniteIsNull) {
  const Json json = to_json(
      StepMetrics{4, "rl", {{"loss", 0.5}, {"grad_norm", std::numeric_limits<double>::quiet_NaN()}}});
  EXPECT_EQ(json.dump(), R"({"grad_norm":null,"kind":"rl","loss":0.5,"step":4})");
}

}  // namespace
}  // namespace tritonforge::train
