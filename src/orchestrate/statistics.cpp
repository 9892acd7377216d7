#include "orchestrate/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace tritonforge::orchestrate {

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  TF_CHECK(k >= 1 && k <= n && c >= 0 && c <= n, "pass@k of n={} c={} k={}", n, c, k);
  if (n - c < k) return 1.0;
  double miss = 1.0;
  for (int64_t i = n - c + 1; i <= n; ++i) miss *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - miss;
}

Interval wilson95(double successes, double n) {
  if (n <= 0) return {0, 1};
  constexpr double z = 1.959963984540054;
  const double p = successes / n, denominator = 1 + z * z / n;
  const double centre = (p + z * z / (2 * n)) / denominator;
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / denominator;
  // At the ends the bound is exact; rounding must not say otherwise.
  return {successes <= 0 ? 0.0 : std::max(0.0, centre - half), successes >= n ? 1.0 : std::min(1.0, centre + half)};
}

Interval cluster_bootstrap95(const std::vector<std::vector<double>>& values, uint64_t seed) {
  std::vector<double> sums, counts;
  for (const auto& cluster : values) {
    if (cluster.empty()) continue;
    sums.push_back(std::accumulate(cluster.begin(), cluster.end(), 0.0));
    counts.push_back(static_cast<double>(cluster.size()));
  }
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  // Nothing varies (all or none passed), or there is nothing to resample: the bootstrap would claim certainty.
  if (sums.size() < 2 || total <= 0 || total >= n) return wilson95(total, std::max<double>(n, 0));
  constexpr int kRounds = 4000;
  std::vector<double> means(kRounds);
  Rng rng(Rng::derive(seed, "cluster_bootstrap95"));
  for (double& mean : means) {
    double sum = 0, count = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t pick = rng.below(sums.size());
      sum += sums[pick];
      count += counts[pick];
    }
    mean = sum / count;
  }
  std::sort(means.begin(), means.end());
  return {means[kRounds * 25 / 1000], means[kRounds * 975 / 1000 - 1]};
}

double fast_p(const std::vector<double>& speedups_of_correct, int64_t total, double p) {
  if (total <= 0) return 0;
  const auto faster = std::count_if(speedups_of_correct.begin(), speedups_of_correct.end(),
                                    [&](double s) { return s > p; });
  return static_cast<double>(faster) / static_cast<double>(total);
}

double geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace tritonforge::orchestrate
