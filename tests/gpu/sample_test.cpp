// Tolerance: the token is the twin's unless the scores of both lie within 1e-5 of each other (fp32 against float64),
// or, with cuts, unless the last token that a cut keeps lies on its edge: at most one draw in 500. Log-probs: 5e-6.
#include "kernels/sample.h"

#include <cmath>

#include "gpu/fixture.h"

namespace tritonforge::gpu {
namespace {

using kernels::Sampled;
using kernels::SampleRow;

class Sampling : public GpuTest {
 protected:
  Buffer workspace_;
  std::vector<Sampled> draw(const at::Tensor& logits, const std::vector<SampleRow>& rows, bool cuts) {
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<float> temperature, top_p, min_p;
    std::vector<int32_t> top_k;
    std::vector<int64_t> seed, position;
    for (const SampleRow& row : rows) {
      temperature.push_back(row.temperature);
      top_p.push_back(row.top_p);
      min_p.push_back(row.min_p);
      top_k.push_back(static_cast<int32_t>(row.top_k));
      seed.push_back(static_cast<int64_t>(row.seed));
      position.push_back(static_cast<int64_t>(row.position));
    }
    const Buffer x = upload(logits), t = upload(at::tensor(temperature)), p = upload(at::tensor(top_p)),
                 m = upload(at::tensor(min_p)), k = upload(ints(top_k));
    const Buffer s = upload(at::tensor(seed, at::kLong)), at = upload(at::tensor(position, at::kLong));
    // One workspace for launches of all sizes: whatever one leaves in it must not be a counter of the next.
    if (workspace_.bytes() == 0) workspace_ = Buffer(api().sample_workspace(512), 0);
    const Buffer tokens = like({count}, at::kInt), log_probs = like({count}, at::kFloat);
    const SampleArgs args{.logits = x.as<float>(),
                          .rows = count,
                          .vocab = logits.size(1),
                          .temperature = t.as<float>(),
                          .top_p = p.as<float>(),
                          .min_p = m.as<float>(),
                          .top_k = k.as<int32_t>(),
                          .seed = s.as<uint64_t>(),
                          .position = at.as<uint64_t>(),
                          .tokens = tokens.as<int32_t>(),
                          .log_probs = log_probs.as<float>(),
                          .cuts = cuts,
                          .workspace = workspace_.as<void>()};
    std::vector<Sampled> drawn;
    for (int round = 0; round < 2; ++round) {  // twice over one workspace: counters must be back at zero
      check_cuda(api().sample(&args, stream));
      const at::Tensor ids = download(tokens, {count}, at::kInt), values = download(log_probs, {count}, at::kFloat);
      for (int64_t i = 0; i < count; ++i) {
        const Sampled one{ids[i].item<int32_t>(), values[i].item<float>()};
        if (round == 0) drawn.push_back(one);
        else EXPECT_EQ(one.token, drawn[static_cast<size_t>(i)].token);
      }
    }
    return drawn;
  }
  // Returns how many tokens differ from the twin's though their scores do not touch.
  int compare(const at::Tensor& logits, const std::vector<SampleRow>& rows, bool cuts) {
    const std::vector<Sampled> drawn = draw(logits, rows, cuts);
    int differ = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const float* x = logits.const_data_ptr<float>() + static_cast<int64_t>(i) * logits.size(1);
      const Sampled expected = kernels::sample_row_reference(x, logits.size(1), rows[i]);
      if (drawn[i].token == expected.token) {
        EXPECT_NEAR(drawn[i].log_prob, expected.log_prob, 5e-6 * std::max(1.0f, std::abs(expected.log_prob)));
        continue;
      }
      EXPECT_GE(drawn[i].token, 0);
      const auto score = [&](int64_t token) {
        return x[token] / rows[i].temperature - std::log(kernels::race_noise(rows[i].seed, rows[i].position, token));
      };
      if (drawn[i].token < 0 || std::abs(score(drawn[i].token) - score(expected.token)) > 1e-5) ++differ;
    }
    return differ;
  }
  static std::vector<SampleRow> rows_like(const SampleRow& base, int64_t count, uint64_t seed) {
    std::vector<SampleRow> rows(static_cast<size_t>(count), base);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].seed = seed * 0x123456789ABCDEFull + i % 3;
      rows[i].position = i * i + (i % 5 == 0 ? uint64_t{1} << 33 : 0);
    }
    return rows;
  }
};

TEST_F(Sampling, DrawsTheTwinsToken) {
  for (const int64_t vocab : {1, 17, 63, 64, 65, 1000, 32000, 151936}) {
    for (const int64_t count : {1, 3, 64, 257}) {
      if (vocab * count > 10'000'000) continue;
      const at::Tensor logits = at::randn({count, vocab}) * 3;
      for (const float temperature : {1.0f, 0.3f, 1.7f}) {
        EXPECT_EQ(compare(logits, rows_like({.temperature = temperature}, count, 5), false), 0)
            << vocab << ", " << count << " rows, T " << temperature;
      }
    }
  }
}

TEST_F(Sampling, GreedyTakesTheLowestIdOfTheLargest) {
  for (const int64_t count : {1, 50}) {
    at::Tensor logits = at::randint(0, 20, {count, 151936}).to(at::kFloat);  // thousands of equals
    const auto drawn = draw(logits, rows_like({.temperature = 0}, count, 1), count == 50);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(drawn[static_cast<size_t>(i)].token, (logits[i] == 19).nonzero()[0].item<int64_t>());
  }
}

TEST_F(Sampling, CutsKeepTheTwinsTokens) {
  int differ = 0, draws = 0;
  for (const int64_t vocab : {17, 1000, 151936}) {
    const int64_t count = vocab > 100000 ? 24 : 96;
    for (const double spread : {0.5, 3.0}) {
      const at::Tensor logits = at::randn({count, vocab}) * spread;
      for (const SampleRow& base : {SampleRow{.top_p = 0.9f}, SampleRow{.top_p = 0.05f}, SampleRow{.top_k = 1},
                                    SampleRow{.top_k = 5}, SampleRow{.top_k = 900}, SampleRow{.min_p = 0.05f},
                                    SampleRow{.temperature = 1.5f, .top_p = 0.8f, .min_p = 0.02f, .top_k = 20},
                                    SampleRow{.top_p = 0.999f, .top_k = 50000}}) {
        differ += compare(logits, rows_like(base, count, 9), true);
        draws += static_cast<int>(count);
      }
    }
  }
  EXPECT_LE(differ, draws / 500) << "of " << draws;
}

TEST_F(Sampling, TiesAreCutByTheLowerId) {  // logits on a coarse grid: every cut goes through a crowd of equals
  const at::Tensor logits = (at::randn({64, 5000}) * 2).round();
  int differ = 0;
  for (const SampleRow& base : {SampleRow{.top_k = 7}, SampleRow{.top_k = 300}, SampleRow{.top_p = 0.5f},
                                SampleRow{.top_p = 0.7f, .top_k = 400}})
    differ += compare(logits, rows_like(base, 64, 3), true);
  EXPECT_EQ(differ, 0);
}

TEST_F(Sampling, RowsOfOneBatchAreTheirOwn) {
  const at::Tensor logits = at::randn({5, 32000}) * 3;
  std::vector<SampleRow> rows = rows_like({}, 5, 8);
  rows[1].temperature = 0;
  rows[2].top_k = 3;
  rows[3].top_p = 0.5f;
  EXPECT_EQ(compare(logits, rows, true), 0);
}

TEST_F(Sampling, LogitsThatAreNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  at::Tensor logits = at::randn({6, 4000});
  logits[0][77] = std::nan("");
  logits[1][3999] = inf;
  logits[2].fill_(-inf);
  logits[3].slice(0, 10).fill_(-inf);  // a mask: fine
  for (const bool cuts : {false, true}) {
    std::vector<SampleRow> rows = rows_like({}, 6, 2);
    if (cuts) {
      for (SampleRow& row : rows) row.top_p = 0.9f;
    }
    rows[5].temperature = 0;
    const auto drawn = draw(logits, rows, cuts);
    for (const size_t bad : {0, 1, 2}) {
      EXPECT_EQ(drawn[bad].token, -1) << bad;
      EXPECT_TRUE(std::isnan(drawn[bad].log_prob)) << bad;
    }
    EXPECT_TRUE(drawn[3].token >= 0 && drawn[3].token < 10);
    EXPECT_EQ(drawn[5].token, logits[5].argmax().item<int64_t>());
  }
}

// 20,000 draws of one row: frequencies against probabilities.
TEST_F(Sampling, FrequenciesAreTheProbabilities) {
  const int64_t count = 20000;
  const at::Tensor one = at::tensor({2.0f, 1.0f, 0.0f, -1.0f, -3.0f}),
                   logits = one.unsqueeze(0).expand({count, 5}).contiguous();
  std::vector<SampleRow> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = {.seed = 42, .position = i};
  at::Tensor found = at::zeros({5}, at::kDouble);
  for (const Sampled& drawn : draw(logits, rows, false)) found[drawn.token] += 1.0 / static_cast<double>(count);
  EXPECT_LE((found - at::softmax(one.to(at::kDouble), 0)).abs().max().item<double>(), 0.015);
}

}  // namespace
}  // namespace tritonforge::gpu
