#pragma once
// How often a duration was how long, in the buckets of a Prometheus histogram.
#include <algorithm>
#include <array>
#include <cstdint>

namespace tritonforge {

struct SecondsHistogram {
  static constexpr std::array<double, 17> kBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                  1,     2.5,    5,     10,   25,    50,   100, 250};
  std::array<int64_t, kBounds.size() + 1> counts{};  // up to each bound, and above all of them
  double sum = 0;

  void add(double seconds) {
    ++counts[static_cast<size_t>(std::ranges::lower_bound(kBounds, seconds) - kBounds.begin())];
    sum += seconds;
  }
};

}  // namespace tritonforge
