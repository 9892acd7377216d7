#include "kernels/sample.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

namespace tritonforge::kernels {
namespace {

std::vector<float> logits_of(int64_t vocab, double spread, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor x = at::randn({vocab}) * spread;
  return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + vocab};
}

TEST(Sample, EqualsThePlainTwin) {
  int differ = 0, draws = 0;
  for (const int64_t vocab : {1, 17, 64, 100, 4096}) {
    const auto logits = logits_of(vocab, 3, 4);
    for (const SampleRow base :
         {SampleRow{.temperature = 0}, SampleRow{.temperature = 1}, SampleRow{.temperature = 0.3f},
          SampleRow{.top_p = 0.9f}, SampleRow{.top_k = 5}, SampleRow{.min_p = 0.05f},
          SampleRow{.temperature = 1.5f, .top_p = 0.8f, .min_p = 0.02f, .top_k = 20}}) {
      for (uint64_t position = 0; position < 40; ++position) {
        SampleRow row = base;
        row.seed = 11;
        row.position = position;
        Sampled found;
        sample_rows(logits.data(), 1, vocab, &row, &found);
        const Sampled expected = sample_row_reference(logits.data(), vocab, row);
        ++draws;
        if (found.token != expected.token) ++differ;  // scores within rounding of each other may swap
        else EXPECT_NEAR(found.log_prob, expected.log_prob, 2e-6);
      }
    }
  }
  EXPECT_LE(differ, 1) << "of " << draws;
}

TEST(Sample, GreedyTakesTheLowestOfEqualLogits) {
  std::vector<float> logits(100, -1.0f);
  logits[70] = logits[23] = 2.0f;
  const SampleRow row{.temperature = 0};
  Sampled found;
  sample_rows(logits.data(), 1, 100, &row, &found);
  EXPECT_EQ(found.token, 23);
}

TEST(Sample, RowsDoNotSeeEachOther) {
  const int64_t vocab = 300, rows = 40;
  at::manual_seed(3);
  const at::Tensor logits = at::randn({rows, vocab});
  std::vector<SampleRow> parameters;
  for (int64_t i = 0; i < rows; ++i)
    parameters.push_back({.seed = static_cast<uint64_t>(i % 7), .position = static_cast<uint64_t>(i)});
  std::vector<Sampled> together(static_cast<size_t>(rows));
  sample_rows(logits.const_data_ptr<float>(), rows, vocab, parameters.data(), together.data());
  for (int64_t i = 0; i < rows; ++i) {
    Sampled alone;
    sample_rows(logits[i].const_data_ptr<float>(), 1, vocab, &parameters[i], &alone);
    EXPECT_EQ(alone.token, together[i].token);
    EXPECT_EQ(alone.log_prob, together[i].log_prob);
  }
}

TEST(Sample, RefusesLogitsThatAreNotNumbers) {
  std::vector<float> logits(100, 0.5f);
  const SampleRow row{};
  Sampled found;
  logits[31] = std::numeric_limits<float>::quiet_NaN();
  sample_rows(logits.data(), 1, 100, &row, &found);
  EXPECT_EQ(found.token, -1);
  logits.assign(100, -std::numeric_limits<float>::infinity());
  sample_rows(logits.data(), 1, 100, &row, &found);
  EXPECT_EQ(found.token, -1);
  logits.assign(100, std::numeric_limits<float>::quiet_NaN());
  sample_rows(logits.data(), 1, 100, &row, &found);
  EXPECT_EQ(found.token, -1);
}

TEST(Sample, TokensOfProbabilityZeroAreNeverDrawn) {
  std::vector<float> logits(64, -std::numeric_limits<float>::infinity());
  logits[5] = 1;
  logits[40] = 0;
  for (uint64_t position = 0; position < 200; ++position) {
    const SampleRow row{.position = position};
    Sampled found;
    sample_rows(logits.data(), 1, 64, &row, &found);
    EXPECT_TRUE(found.token == 5 || found.token == 40);
  }
}

struct Cut {
  const char* name;
  SampleRow row;
};
class SampleDistribution : public testing::TestWithParam<Cut> {};

// Chi-square of the drawn tokens against the exact distribution under each cut; draws of one seed at many positions,
// and of many seeds at one position.
TEST_P(SampleDistribution, IsTheSoftmaxWithinTheCut) {
  const int64_t vocab = 50, draws = 40000;
  const auto logits = logits_of(vocab, 1.5, 9);
  const SampleRow cut = GetParam().row;
  std::vector<std::pair<double, int64_t>> sorted;
  for (int64_t i = 0; i < vocab; ++i) sorted.emplace_back(-std::exp(logits[i] / cut.temperature), i);
  std::sort(sorted.begin(), sorted.end());
  if (cut.top_k > 0) sorted.resize(static_cast<size_t>(cut.top_k));
  double total = 0, mass = 0;
  for (const auto& [p, token] : sorted) total -= p;
  const double top = -sorted[0].first;
  std::map<int64_t, double> expected;
  for (const auto& [p, token] : sorted) {
    if (!expected.empty() && cut.top_p < 1 && mass >= cut.top_p * total) break;
    mass -= p;
    expected[token] = -p;
  }
  std::erase_if(expected, [&](const auto& entry) { return entry.second < cut.min_p * top; });
  double kept = 0;
  for (const auto& [token, p] : expected) kept += p;
  for (const bool by_position : {true, false}) {
    std::map<int64_t, int64_t> counts;
    for (int64_t i = 0; i < draws; ++i) {
      SampleRow row = cut;
      row.seed = by_position ? 5 : static_cast<uint64_t>(i);
      row.position = by_position ? static_cast<uint64_t>(i) : 12;
      Sampled found;
      sample_rows(logits.data(), 1, vocab, &row, &found);
      ++counts[found.token];
    }
    double chi_square = 0;
    for (const auto& [token, p] : expected) {
      const double mean = p / kept * draws;
      chi_square += (counts[token] - mean) * (counts[token] - mean) / mean;
      counts.erase(token);
    }
    EXPECT_TRUE(counts.empty() || counts.begin()->second == 0)
        << "token " << counts.begin()->first << " is outside the cut";
    const double freedom = static_cast<double>(expected.size()) - 1;
    EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom) + 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuts, SampleDistribution,
                         testing::Values(Cut{"none", {}}, Cut{"cold", {.temperature = 0.6f}},
                                         Cut{"hot", {.temperature = 2.0f}}, Cut{"top_k", {.top_k = 7}},
                                         Cut{"top_p", {.top_p = 0.8f}}, Cut{"min_p", {.min_p = 0.1f}},
                                         Cut{"all", {.temperature = 1.3f, .top_p = 0.9f, .min_p = 0.05f, .top_k = 30}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tritonforge::kernels
