#pragma once
// Plan mode's measurement from the trusted side: process P holds the clock and runs candidate and eager reference one
// after the other. torch.compile's version runs in the problem's own process, beside eager and once for all candidates
// of the problem; between the candidate's calls only where eager is no plan. own_share by time, pairs until the
// interval is narrow, the physics of the problem, the state of the device.
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/nvml.h"
#include "contract/verdict.h"
#include "evaluate/judgement.h"
#include "evaluate/lowering.h"
#include "evaluate/plan/gpu_replayers.h"
#include "evaluate/plan/plan.h"
#include "evaluate/plan/tunings.h"
#include "evaluate/plan/work.h"
#include "evaluate/reference_cache.h"

namespace tritonforge::evaluate {

struct TimedWork {
  Work own, aten;  // in milliseconds
};
// Of one forward whose steps took `ms`. `copied`: of each launch in order, that it left nothing but copies of what it
// was given; launches of kernels in `idle`, without which the output is the same, are no work at all.
TimedWork timed_work(const Plan& plan, const std::vector<double>& ms, const std::vector<bool>& copied,
                     const std::set<int>& idle);
// The launches' work in the unit of `aten`, aten_work's: they have as much more of it as they took more time.
Work own_work(const Plan& plan, const std::vector<double>& ms, const std::vector<bool>& copied,
              const std::set<int>& idle, const Work& aten);

// The kernel that hides expected outputs on a device and compares them there (sealed_words.h). Throws kUnsupported
// where NVRTC is not here.
Lowered sealer_of(LoweringPool& lowering, const std::string& target, Deadline deadline);

// In the problem's own process, before there is a candidate: what torch.compile's version takes the processor for
// seconds. Why there is none is for whoever asks for its time. Throws TimingFault.
void compile_ahead(Child& child, const ReferenceData& reference, DeviceLock& lock, Deadline deadline);

struct GpuProblem {
  GpuReplayers& replayers;
  // The problem's own process, for torch.compile; `use` says whether it is fit to be used again.
  std::function<void(const std::function<bool(Child&)>& use)> with_reference;
  // What is known of torch.compile's version, else what `measure` finds with such a process (ReferenceCache::compiled).
  std::function<CompiledBaseline(const std::function<CompiledBaseline(Child&)>& measure)> compiled;
  Spent* spent = nullptr;  // Client::spent
  // Of the GPU with this UUID.
  std::function<std::optional<GpuState>(const std::string& uuid)> state = gpu_state;
};

// Seconds that one timed call has: a kernel may hang only there, while the device is nobody else's. A candidate's has
// what its trials took, which were watched besides, twice over and two seconds more.
struct CallLimits {
  double candidate = 0, reference = 0;
  // What process P has for an answer about `calls`. It ends a call that takes too long by itself, unless launches have
  // filled the device's queue.
  double of(const Json& calls) const;
};
inline constexpr double kBeyondTrials = 2, kReferenceSeconds = 20;

class GpuMeasurement {
 public:
  // A replayer has the plan loaded and its trials passed. It is asked through `ask`, which throws where it goes silent,
  // fails, or gives no answer within `limit_s`. Neither it nor the reference's process is timed before the device is
  // theirs alone.
  using Ask =
      std::function<Frame(const Json& request, const std::vector<std::span<const std::byte>>& payload, double limit_s)>;
  // `aten`: what the plan leaves to torch (plan/work.h). `call_s`: what the slowest of its trials took.
  GpuMeasurement(const GpuProblem& gpu, const Plan& plan, const Work& aten, const ReferenceData& reference,
                 const EvaluatorOptions& options, const Lowered& sealer, Ask ask, double call_s, uint64_t seed)
      : gpu_(gpu),
        plan_(plan),
        aten_(aten),
        reference_(reference),
        options_(options),
        sealer_(sealer),
        ask_(std::move(ask)),
        limits_{2 * call_s + kBeyondTrials, kReferenceSeconds},
        seed_(seed) {}

  // `plan` and `aten` are those of the choice at hand.
  ~GpuMeasurement() { leave(); }
  GpuMeasurement(const GpuMeasurement&) = delete;
  GpuMeasurement& operator=(const GpuMeasurement&) = delete;

  // Hands over the trials.
  void begin(Deadline deadline);
  // Of each tuning the configuration with the least median of a few calls, the others' as they are; process P is left
  // with that choice. The device is this measurement's alone from then on, until time() is through or leave() is
  // called.
  Choice fastest(const Tunings& tunings, Deadline deadline);
  // One forward step by step, alone as well; what follows needs it. `copied`: of the plan's launches.
  void profile_steps(const std::vector<bool>& copied, Deadline deadline);
  const std::vector<double>& steps() const { return steps_; }  // milliseconds of each
  Work own() const { return own_work(plan_, steps_, copied_, {}, aten_); }
  // Adds times and notes, or a flag for a timed output that is wrong.
  void time(int most_pairs, double limit_s, Deadline deadline, Measured& measured);
  void leave();

 private:
  struct Side;
  struct Pairing {  // how sides are timed in turns
    int most_pairs;
    double limit_s;
    Deadline deadline;
  };
  Json begin_request() const;  // its payload begins with the sealer's machine code
  void begin_drawn(Deadline deadline);
  void run_pairs(std::vector<Side>& sides, const Pairing& how, Measured& measured);
  CompiledBaseline time_compiled(Child& child, const Pairing& how, Measured& measured);
  // Candidate and torch.compile's version in turns, where eager is no plan. Empty: there is none.
  std::vector<Side> beside_compiled(const Pairing& how, Measured& measured);
  std::optional<CompiledBaseline> against_compiled(const Pairing& how, std::vector<Side>& sides, Measured& measured);
  // Of the candidate, the first side, over the second and what is known of torch.compile's version.
  Measured::Times times_of(const std::vector<Side>& sides, const std::optional<CompiledBaseline>& compiled) const;
  double median_ms();
  // `calls` of process P: [[plan, input, checked]].
  Frame make(const Json& calls);
  void hold(Deadline deadline);
  Profile profile() const;
  void add_physics(Measured::Times& times) const;
  const GpuProblem& gpu_;
  const Plan& plan_;
  const Work& aten_;
  const ReferenceData& reference_;
  const EvaluatorOptions& options_;
  const Lowered& sealer_;
  Ask ask_;
  const CallLimits limits_;
  uint64_t seed_;
  std::vector<bool> copied_;
  Json resources_;
  std::vector<double> steps_;
  bool has_reference_ = false;
  size_t pooled_ = 0;  // trials on whose inputs it is timed
  std::optional<MeasuringTurns::Turn> turn_;
  Clock::time_point held_since_;
  double held_s_ = 0;
  std::optional<GpuState> before_, after_;  // the last pairs
};

}  // namespace tritonforge::evaluate
