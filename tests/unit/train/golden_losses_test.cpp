// Every algorithm by name against values of tests/reference/rl.py, which shares no line with the code under test.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/filesystem.h"
#include "base/options_json.h"
#include "train/losses.h"
#include "train/packing.h"

namespace tritonforge::train {
namespace {

Json reference() { return parse_json(read_file(fs::path(TF_SOURCE_DIR) / "tests/reference/rl.json"), "rl.json"); }

using Rows = std::vector<std::vector<double>>;

at::Tensor flat(const Rows& rows) {
  std::vector<double> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return at::tensor(values, at::kDouble);
}

// A prompt of one token, and as many targets as the row has log-probs.
std::vector<TrainSequence> sequences_of(const Rows& sampler, const std::vector<double>& advantages) {
  std::vector<TrainSequence> sequences;
  for (size_t i = 0; i < sampler.size(); ++i) {
    TrainSequence& s = sequences.emplace_back();
    s.tokens.assign(sampler[i].size() + 1, 1);
    s.loss_mask.assign(s.tokens.size(), 1);
    s.loss_mask[0] = 0;
    s.old_log_probs.assign(s.tokens.size(), 0);
    s.advantages.assign(s.tokens.size(), static_cast<float>(advantages[i]));
    s.advantages[0] = 0;
    s.weight_versions.assign(s.tokens.size(), 0);
  }
  return sequences;
}

TEST(GoldenLosses, EveryAlgorithmIsItsPapers) {
  const Json golden = reference();
  const Json& batch = golden.at("batch");
  const Rows sampler = batch.at("sampler").get<Rows>();
  for (const Json& item : golden.at("losses")) {
    const std::string name = item.at("name");
    const LossConfig config = options_from_json<LossConfig>(item.at("loss"), name);
    std::vector<TrainSequence> sequences = sequences_of(sampler, batch.at("advantages").get<std::vector<double>>());
    if (config.normalize_advantages) normalize_advantages(sequences);
    const std::vector<double> weight_of = loss_weights(sequences, config);
    std::vector<double> advantages, weights;
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < sequences.size(); ++i) {
      lengths.push_back(static_cast<int64_t>(sampler[i].size()));
      weights.insert(weights.end(), sampler[i].size(), weight_of[i]);
      advantages.insert(advantages.end(), sequences[i].advantages.begin() + 1, sequences[i].advantages.end());
    }
    PolicyInputs in;
    in.log_probs = flat(batch.at("policy").get<Rows>()).requires_grad_(true);
    in.old_log_probs = flat(item.at("old").get<Rows>());
    in.sampler_log_probs = flat(sampler);
    in.reference_log_probs = flat(batch.at("reference").get<Rows>());
    in.on_policy = flat(batch.at("on_policy").get<Rows>());
    in.advantages = at::tensor(advantages, at::kDouble);
    in.weights = at::tensor(weights, at::kDouble);
    in.lengths = at::tensor(lengths, at::kLong);
    const PolicyLoss loss = policy_loss(in, config);
    loss.loss.backward();
    const double value = loss.loss.item<double>();
    EXPECT_NEAR(value, item.value("value", value), 1e-7) << name;
    const auto gradients = item.at("gradients").get<std::vector<double>>();
    ASSERT_EQ(static_cast<int64_t>(gradients.size()), in.log_probs.numel()) << name;
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_NEAR(in.log_probs.grad()[static_cast<int64_t>(i)].item<double>(), gradients[i], 1e-7) << name << " " << i;
  }
}

// Without this a case whose bounds nothing meets would pass whatever they are.
TEST(GoldenLosses, TheCasesMeetTheirBounds) {
  const Json golden = reference();
  const auto gradients = [&](const char* name) {
    for (const Json& item : golden.at("losses")) {
      if (item.at("name") == name) return item.at("gradients").get<std::vector<double>>();
    }
    ADD_FAILURE() << name;
    return std::vector<double>();
  };
  const auto zeros = [](const std::vector<double>& values) { return std::count(values.begin(), values.end(), 0.0); };
  for (const char* clipped : {"dr_grpo", "dapo", "gspo", "off-policy sequence masking"})
    EXPECT_GT(zeros(gradients(clipped)), 0) << clipped;
  EXPECT_GT(zeros(gradients("off-policy sequence masking")), zeros(gradients("dapo")));
  EXPECT_NE(gradients("token-level TIS"), gradients("dapo"));
  EXPECT_NE(gradients("token-level TIS"), gradients("token-level TIS of every token"));
  EXPECT_NE(gradients("dr_grpo"), gradients("dapo"));
}

}  // namespace
}  // namespace tritonforge::train
