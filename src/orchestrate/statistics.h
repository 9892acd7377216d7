#pragma once
// The figures of a benchmark: pass@k, fast_p, and intervals that respect that samples of one problem are alike.
#include <cstdint>
#include <vector>

namespace tritonforge::orchestrate {

// Unbiased pass@k of one problem with n samples, c correct: 1 - prod_{i=n-c+1..n} (1 - k/i) (Chen et al. 2021).
// Requires 1 <= k <= n.
double pass_at_k(int64_t n, int64_t c, int64_t k);

struct Interval {
  double low = 0, high = 0;
};

// 95 % percentile bootstrap over clusters: the mean of all values, resampling whole problems. `values[p]` holds the
// samples of problem p. 4000 rounds; a function of (values, seed). One cluster: Wilson's interval of its mean.
Interval cluster_bootstrap95(const std::vector<std::vector<double>>& values, uint64_t seed);

// Wilson's score interval for `successes` of `n` (values may be fractional).
Interval wilson95(double successes, double n);

// Share of samples that are correct and faster than p (speedup 0 = not timed).
double fast_p(const std::vector<double>& speedups_of_correct, int64_t total, double p);

// exp(mean(ln x)); 0 where empty.
double geometric_mean(const std::vector<double>& values);

}  // namespace tritonforge::orchestrate
