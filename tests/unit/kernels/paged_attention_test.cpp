#include "kernels/paged_attention.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu_kernels.h"

namespace tritonforge::kernels {
namespace {

struct Case {
  int64_t heads, kv_heads, head_dim;
  at::ScalarType dtype;
  bool fp8 = false;
};

class PagedAttention : public testing::TestWithParam<Case> {};

// Sequences of several lengths over shuffled blocks, each with a few last tokens as queries, and a padded token.
TEST_P(PagedAttention, EqualsTheReference) {
  const auto [heads, kv_heads, d, dtype, fp8] = GetParam();
  at::manual_seed(1);
  const std::vector<int64_t> lengths{1, 15, 16, 17, 70, 5};
  const int64_t blocks = 40, width = 6;
  const PagedLayer layer = make_paged_layer(blocks, kv_heads, d, fp8 ? at::kFloat8_e4m3fn : dtype);
  const PagedLayer rounded = make_paged_layer(fp8 ? blocks : 0, kv_heads, d, dtype);
  const at::Tensor order = at::randperm(blocks - 1) + 1;
  at::Tensor tables = at::zeros({static_cast<int64_t>(lengths.size()), width}, at::kInt);
  std::vector<int64_t> sequence_of, positions;
  int64_t next = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int64_t b = 0; b < (lengths[s] + kPage - 1) / kPage; ++b) tables[s][b] = order[next++].to(at::kInt);
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < lengths[s]; ++t) slots.push_back(tables[s][t / kPage].item<int32_t>() * kPage + t % kPage);
    const auto random = [&] { return at::randn({lengths[s], kv_heads, d}).to(dtype); };
    const at::Tensor k = random(), v = random();
    paged_write(layer, k, v, at::tensor(slots));
    if (fp8) paged_write(rounded, fp8_rounded(k), fp8_rounded(v), at::tensor(slots));
    for (int64_t t = std::max<int64_t>(0, lengths[s] - 3); t < lengths[s]; ++t) {
      sequence_of.push_back(static_cast<int64_t>(s));
      positions.push_back(t);
    }
  }
  sequence_of.push_back(-1);
  positions.push_back(0);
  const auto tokens = static_cast<int64_t>(positions.size());
  const at::Tensor q = at::randn({tokens, heads, d}).to(dtype);
  const at::Tensor owner = at::tensor(sequence_of), at = at::tensor(positions);
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const at::Tensor expected = paged_attention_reference(layer, q, tables, owner, at, scale);
  const at::Tensor found = paged_attention(layer, q, tables, owner, at, scale);
  const double tolerance = dtype == at::kFloat ? 2e-6 : 1e-2;
  EXPECT_LT((found - expected).to(at::kFloat).abs().max().item<float>(), tolerance);

  // One token alone gives the same bits: nothing depends on the rest of the batch.
  for (const int64_t t : {int64_t{0}, tokens / 2, tokens - 2}) {
    const at::Tensor alone = paged_attention(layer, q.slice(0, t, t + 1), tables, owner.slice(0, t, t + 1).contiguous(),
                                             at.slice(0, t, t + 1).contiguous(), scale);
    EXPECT_TRUE(at::equal(alone[0], found[t]));
  }
  // FP8 gives the bits of the same numbers in the tokens' own dtype.
  if (!fp8) return;
  EXPECT_TRUE(at::equal(found, paged_attention(rounded, q, tables, owner, at, scale)));
}

INSTANTIATE_TEST_SUITE_P(Shapes, PagedAttention,
                         testing::Values(Case{4, 2, 64, at::kFloat}, Case{14, 2, 64, at::kFloat},
                                         Case{8, 8, 128, at::kFloat}, Case{3, 1, 32, at::kFloat},
                                         Case{6, 2, 20, at::kFloat}, Case{4, 4, 80, at::kFloat},
                                         Case{1, 1, 4, at::kFloat}, Case{14, 2, 64, at::kBFloat16},
                                         Case{4, 1, 24, at::kBFloat16}, Case{5, 1, 256, at::kFloat},
                                         Case{32, 8, 128, at::kBFloat16}, Case{14, 2, 64, at::kFloat, true},
                                         Case{32, 8, 128, at::kBFloat16, true}, Case{6, 2, 20, at::kFloat, true},
                                         Case{1, 1, 4, at::kFloat, true}, Case{3, 1, 80, at::kBFloat16, true}));

// A key that is not finite is not lost in the rounding: who attends to it gets no number, as without FP8.
TEST(PagedAttentionInFp8, WhatIsNotFiniteStaysSo) {
  const PagedLayer layer = make_paged_layer(2, 1, 16, at::kFloat8_e4m3fn);
  at::Tensor k = at::ones({3, 1, 16});
  k[1][0][4] = std::nanf("");
  paged_write(layer, k, at::ones({3, 1, 16}), at::tensor({16, 17, 18}, at::kLong));
  const at::Tensor table = at::ones({1, 1}, at::kInt), owner = at::zeros({2}, at::kLong);
  const at::Tensor out = paged_attention(layer, at::ones({2, 1, 16}), table, owner, at::tensor({0, 2}, at::kLong),
                                         0.25);
  EXPECT_TRUE(at::equal(out[0], at::ones({1, 16})));
  EXPECT_TRUE(out[1].isnan().all().item<bool>());
}

// Every instruction set computes the same thing, up to the rounding of fused multiply-adds.
TEST(CpuKernels, InstructionSetsAgree) {
  at::manual_seed(2);
  for (const CpuKernels* kernels : {cpu_kernels_avx2(), cpu_kernels_avx512()}) {
    if (kernels == nullptr) continue;
    for (const int64_t n : {1, 15, 16, 17, 64, 65, 1000}) {
      const at::Tensor x = at::randn({n}) * 5;
      const auto* data = x.const_data_ptr<float>();
      float max, expected_max;
      int64_t index, expected_index;
      kernels->argmax(data, n, &max, &index);
      cpu_kernels_baseline().argmax(data, n, &expected_max, &expected_index);
      EXPECT_EQ(index, expected_index);
      const double sum = kernels->sum_exp(data, n, max, 0.7f, nullptr);
      EXPECT_NEAR(sum / cpu_kernels_baseline().sum_exp(data, n, max, 0.7f, nullptr), 1, 1e-6);
      EXPECT_NEAR(sum / ((x.to(at::kDouble) - max) * 0.7).exp().sum().item<double>(), 1, 1e-6);
      double race_sum;
      for (uint64_t position = 0; position < 50; ++position) {
        EXPECT_EQ(kernels->race(data, n, max, 0.7f, 3, position, &race_sum),
                  cpu_kernels_baseline().race(data, n, max, 0.7f, 3, position, &race_sum))
            << n;
      }
      EXPECT_NEAR(race_sum / sum, 1, 1e-6);
    }
  }
}

}  // namespace
}  // namespace tritonforge::kernels
