#pragma once
// Live timing: interleaved rounds of reference and candidate on one GPU, and what follows from the samples.
#include <cstdint>
#include <vector>

#include "contract/verdict.h"
#include "evaluate/reference.h"
#include "evaluate/request.h"

namespace tritonforge::evaluate {

Timing summarise(std::vector<double> samples);

// Percentile bootstrap of median(reference) / median(candidate), each side resampled on its own; [low, high] holds the
// ratio with 95 % confidence. 2000 resamples; deterministic in `seed`. Empty samples give {0, 0}.
struct Interval {
  double low = 0, high = 0;
};
Interval bootstrap_ratio(const std::vector<double>& reference, const std::vector<double>& candidate, uint64_t seed);

struct TimingSession {
  Child& reference;
  Child& candidate;
  const ReferenceData& data;
  const EvaluatorOptions& options;
  fs::path sandbox_library;
  int max_samples = 100;
  uint64_t seed = 0;
};
// Holds the device alone while it measures. Fills runtime, ref_runtime, speedup, device and stage timed; a wrong timed
// output or a clock that disagrees with ours is a flag, and then nothing is timed. False where the reference's process
// failed and must not be used again.
bool measure(const TimingSession& session, Verdict& verdict, Deadline deadline);

}  // namespace tritonforge::evaluate
