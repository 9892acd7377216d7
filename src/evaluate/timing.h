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
  // It has `limit_s` for its answer. Throws TimingFault; kUnavailable where it died with its Python parent.
  virtual Frame ask(const Json& request, const std::vector<std::span<const std::byte>>& payload, double limit_s) = 0;
  // What it still owes of a question whose time was up. Throws as ask.
  virtual Frame answer(double limit_s) = 0;
};

// A sandboxed child; `payload_bytes`: of an answer, at most.
class TimedChild : public TimedProcess {
 public:
  explicit TimedChild(Child& child, uint64_t payload_bytes = 0) : child_(child), payload_bytes_(payload_bytes) {}
  Frame ask(const Json& request, const std::vector<std::span<const std::byte>>& payload, double limit_s) override;
  Frame answer(double limit_s) override;

 private:
  Frame received(Silence silence, double limit_s, Deadline deadline);

  Child& child_;
  const uint64_t payload_bytes_;
};

// A measurement has the device for itself for so long, warm-up included, and two seconds for an answer that is under
// way then: whoever else computes there waits. Rounds of ten calls of 100 ms a side fit.
inline constexpr double kMostHoldSeconds = 20;

struct TimingSession {
  TimedProcess& reference;
  TimedProcess& candidate;
  const ReferenceData& data;
  const EvaluatorOptions& options;
  fs::path sandbox_library;
  int max_samples = 100;
  uint64_t seed = 0;
  double limit_s = 120;  // of each answer before the device is there
  double call_s = 0;     // what a trial of the candidate took (ProcessRunner::call_s)
  double most_hold_s = kMostHoldSeconds;
};
// Holds the device alone while it measures, for most_hold_s; of that the candidate has for an answer what its trials
// took for as many calls, twice over and two seconds more. Who is so slow that the device has to be given back first is
// not timed: the note "timing" says so, and the verdict stays, if the candidate answers at all. Fills runtime,
// ref_runtime, speedup, device and stage timed. A candidate that dies, hangs or answers nonsense while it is timed is
// not correct (stage launched), whatever its trials were: a kernel that works only until it is measured is no kernel. A
// wrong timed output or a clock that disagrees with ours is a flag, too. Where the reference fails, that is ours: the
// fault is problem_error, the candidate stays correct and untimed, and false is returned: its process must not be used
// again.
bool measure(const TimingSession& session, Verdict& verdict);

}  // namespace tritonforge::evaluate
