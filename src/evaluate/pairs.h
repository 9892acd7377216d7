#pragma once
// Statistics of timed pairs: what a candidate and a baseline took one after the other. Ratios of pairs cancel what
// drifts slowly, clocks and temperature; pure functions.
#include <vector>

#include "evaluate/timing.h"

namespace tritonforge::evaluate {

// The 95 % interval of the median by order statistics: [x_(r), x_(n+1-r)] with the largest r whose coverage, by the
// binomial distribution, is at least 95 %. No assumption on the distribution. Fewer than 6 samples: their range.
Interval median_interval(std::vector<double> samples);

struct PairRule {
  int least = 20, most = 200;
  double precision = 0.01;  // half-width of the interval, relative to its middle
};
// Whether more pairs would tell nothing that is asked for.
bool enough_pairs(const Interval& interval, size_t pairs, const PairRule& rule = {});

// Milliseconds below which no kernel can be: each byte of inputs and weights comes from memory once (the L2 is cold),
// and what the L2 does not hold of the outputs goes there; `flops` at the device's best rate.
struct Physics {
  double read_bytes = 0, written_bytes = 0, flops = 0;
  double l2 = 0, bytes_per_s = 0, flops_per_s = 0;  // of the device
};
double floor_ms(const Physics& physics);
// A time this far below the floor is no measurement of the asked work.
constexpr double kBelowFloor = 0.9;
// A speedup over eager beyond this is measured once more, and doubted.
constexpr double kBeyondEager = 10;

}  // namespace tritonforge::evaluate
