#include "kernels/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu_kernels.h"
#include "kernels/parallel.h"

namespace tritonforge::kernels {
namespace {

struct Candidate {
  float p;  // exp((logit - max) / T): the largest is 1
  int32_t token;
};
bool more_likely(const Candidate& a, const Candidate& b) { return a.p > b.p || (a.p == b.p && a.token < b.token); }

// Keeps what the cuts leave. `total`: the sum of all p.
void cut(std::vector<Candidate>& candidates, const SampleRow& row, double total) {
  if (row.top_k > 0 && row.top_k < static_cast<int64_t>(candidates.size())) {
    std::nth_element(candidates.begin(), candidates.begin() + row.top_k - 1, candidates.end(), more_likely);
    candidates.resize(static_cast<size_t>(row.top_k));
    total = std::accumulate(candidates.begin(), candidates.end(), 0.0,
                            [](double sum, const Candidate& c) { return sum + c.p; });
  }
  if (row.top_p < 1) {
    std::sort(candidates.begin(), candidates.end(), more_likely);
    double mass = 0;
    size_t kept = 0;
    while (kept < candidates.size() && (kept == 0 || mass < row.top_p * total)) mass += candidates[kept++].p;
    candidates.resize(kept);
  }
  if (row.min_p > 0) std::erase_if(candidates, [&](const Candidate& c) { return c.p < row.min_p; });
}

int64_t race(const std::vector<Candidate>& candidates, const SampleRow& row) {
  int64_t winner = -1;
  double best = -1;
  for (const Candidate& candidate : candidates) {
    const double score = candidate.p / race_noise(row.seed, row.position, candidate.token);
    if (score > best || (score == best && candidate.token < winner)) {
      best = score;
      winner = candidate.token;
    }
  }
  return winner;
}

// What the cuts would remove for certain is not even collected: with top_p those so small that all of them together
// are less than 1 - top_p, with min_p alone those below it.
int64_t race_within_cuts(const std::vector<float>& p, double total, const SampleRow& row,
                         std::vector<Candidate>& candidates) {
  float floor = 0;
  if (row.top_k <= 0 && row.top_p < 1) {
    floor = static_cast<float>(0.999 * (1.0 - row.top_p) * total / static_cast<double>(p.size()));
  } else if (row.top_k <= 0) {
    floor = row.min_p;
  }
  candidates.clear();
  for (size_t token = 0; token < p.size(); ++token) {
    if (p[token] >= floor) candidates.push_back({p[token], static_cast<int32_t>(token)});
  }
  cut(candidates, row, total);
  return race(candidates, row);
}

struct Scratch {
  std::vector<float> p;
  std::vector<Candidate> candidates;
};

Sampled sample_row(const float* logits, int64_t vocab, const SampleRow& row, Scratch& scratch) {
  const CpuKernels& cpu = cpu_kernels();
  float max;
  int64_t greedy;
  cpu.argmax(logits, vocab, &max, &greedy);
  if (greedy >= vocab || !std::isfinite(max)) return {-1, std::numeric_limits<float>::quiet_NaN()};
  double total;
  int64_t token = greedy;
  const float factor = inverse_temperature(row.temperature);
  if (row.temperature == 0) {
    total = cpu.sum_exp(logits, vocab, max, 1, nullptr);
  } else {
    const bool cuts = (row.top_k > 0 && row.top_k < vocab) || row.top_p < 1 || row.min_p > 0;
    if (!cuts) {
      token = cpu.race(logits, vocab, max, factor, row.seed, row.position, &total);
    } else {
      scratch.p.resize(static_cast<size_t>(vocab));
      total = cpu.sum_exp(logits, vocab, max, factor, scratch.p.data());
      token = race_within_cuts(scratch.p, total, row, scratch.candidates);
    }
  }
  if (!std::isfinite(total)) return {-1, std::numeric_limits<float>::quiet_NaN()};
  return {token, static_cast<float>((static_cast<double>(logits[token]) - max) * factor - std::log(total))};
}

}  // namespace

double race_noise(uint64_t seed, uint64_t position, int64_t token) {
  uint32_t c[4] = {static_cast<uint32_t>(token / 64 * 16 + token % 16), static_cast<uint32_t>(position),
                   static_cast<uint32_t>(position >> 32), 0};
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    std::copy_n(next, 4, c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const double w = (static_cast<double>(c[token / 16 % 4]) + 0.5) * 0x1.0p-32;
  return -std::log1p(-w);
}

void sample_rows(const float* logits, int64_t rows, int64_t vocab, const SampleRow* parameters, Sampled* out) {
  over_threads(rows, std::max<int64_t>(1, 8192 / vocab), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    for (int64_t i = begin; i < end; ++i) out[i] = sample_row(logits + i * vocab, vocab, parameters[i], scratch);
  });
}

Sampled sample_row_reference(const float* logits, int64_t vocab, const SampleRow& row) {
  const int64_t top = std::max_element(logits, logits + vocab) - logits;
  const double factor = row.temperature == 0 ? 1.0 : 1.0 / row.temperature;
  std::vector<Candidate> candidates;
  double total = 0;
  for (int64_t token = 0; token < vocab; ++token) {
    const double p = std::exp((static_cast<double>(logits[token]) - logits[top]) * factor);
    total += p;
    candidates.push_back({static_cast<float>(p), static_cast<int32_t>(token)});
  }
  int64_t token = top;
  if (row.temperature != 0) {
    cut(candidates, row, total);
    token = race(candidates, row);
  }
  return {token, static_cast<float>((static_cast<double>(logits[token]) - logits[top]) * factor - std::log(total))};
}

}  // namespace tritonforge::kernels
