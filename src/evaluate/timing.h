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

// Why a timed process gave no answer.
struct TimingFault {
  Fault fault;
  std::string text;  // "while it was timed it ..."
};

// One side of a measurement.
class TimedProcess {
 public:
  virtual ~TimedProcess() = default;
  // Throws TimingFault; kUnavailable where it died with its Python parent.
  virtual Frame ask(const Json& request, const std::vector<std::span<const std::byte>>& payload) = 0;
};

// A sandboxed child, which may take `limit_s` for each answer.
class TimedChild : public TimedProcess {
 public:
  TimedChild(Child& child, double limit_s) : child_(child), limit_s_(limit_s) {}
  Frame ask(const Json& request, const std::vector<std::span<const std::byte>>& payload) override;

 private:
  Child& child_;
  double limit_s_;
};

struct TimingSession {
  TimedProcess& reference;
  TimedProcess& candidate;
  const ReferenceData& data;
  const EvaluatorOptions& options;
  fs::path sandbox_library;
  int max_samples = 100;
  uint64_t seed = 0;
  double limit_s = 120;  // of the rounds, which begin when the device is there: waiting for it costs nobody
};
// Holds the device alone while it measures. Fills runtime, ref_runtime, speedup, device and stage timed. A candidate
// that dies, hangs or answers nonsense while it is timed is not correct (stage launched), whatever its trials were: a
// kernel that works only until it is measured is no kernel. A wrong timed output or a clock that disagrees with ours is
// a flag, too. Where the reference fails, that is ours: the fault is problem_error, the candidate stays correct and
// untimed, and false is returned: its process must not be used again.
bool measure(const TimingSession& session, Verdict& verdict);

}  // namespace tritonforge::evaluate
