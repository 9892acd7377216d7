#include "train/step_record.h"

#include <gtest/gtest.h>

namespace tritonforge::train {
namespace {

TEST(StepRecord, CountsAreExactHoweverManyTokensThereAre) {
  constexpr int64_t kTokens = (int64_t{1} << 24) + 1;  // what fp32 has no number for
  StepRecord record;
  MicroBatch batch;
  batch.tokens = kTokens;
  batch.target_count = 1;
  record.add_sft(batch, {at::zeros({1}), at::zeros({1})}, at::zeros({}));
  record.add_flops(6e17);
  EXPECT_EQ(record.read().tokens, static_cast<double>(kTokens));
  EXPECT_EQ(record.flops(), 6e17);
}

}  // namespace
}  // namespace tritonforge::train
