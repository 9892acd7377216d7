#pragma once
// A problem's own process, role reference, as it is asked (worker/tritonforge_worker/reference.py).
#include <functional>
#include <optional>
#include <tuple>

#include "evaluate/reference.h"

namespace tritonforge::evaluate {

class ReferenceProcess {
 public:
  // Each below throws ProblemFault with the problem's own error, kUnavailable where the Python parent died, kCorrupt
  // and what JSON throws where it sent no answer (as_its_own).
  ReferenceProcess(Child& child, const ReferenceSpec& spec, Deadline deadline)
      : child_(child), spec_(spec), deadline_(deadline) {}
  // The spec's where it is known; else the problem is probed.
  Admission admission();
  // The module at the spec's sizes, unless it stands. Fills what a candidate's "load" is built from.
  void load(ReferenceData& data);
  // One call under these seeds, whole; or drawn where plans are replayed, of which the elements at the fractions come.
  std::unique_ptr<ReferenceTrial> trial(const TrialSeeds& seeds, Draw draw);
  std::unique_ptr<ReferenceTrial> sample(const TrialSeeds& seeds, Draw draw, const std::vector<int64_t>& fractions);

  struct Recorded {
    Json plan;
    std::vector<std::byte> payload;
  };
  // get_inputs as a plan, where it is one.
  std::optional<Recorded> inputs(Draw draw);
  // forward of such inputs; the module is of no further use.
  std::optional<Recorded> forward(const Json& inputs, const Json& tensors);
  // Of what is no plan the calls that torch gets, as a plan's.
  std::optional<Json> calls(uint64_t seed, Draw draw);

 private:
  using Module = std::tuple<uint64_t, bool, Budget>;
  Frame ask(const Json& request, uint64_t payload_bytes);
  uint64_t max_bytes() const;
  std::optional<Recorded> recorded(const Json& request);
  void load(const Module& module, uint64_t weight_seed, bool probing, ReferenceData& data);
  Probe probe_of(uint64_t seed, Draw draw);

  Child& child_;
  const ReferenceSpec& spec_;
  const Deadline deadline_;
  std::optional<Module> loaded_;
};

// Calls `part`; what is no answer is the problem's fault.
void as_its_own(const std::function<void()>& part);
// Calls what records or weighs the problem's code: where that breaks there is nothing to hold against anybody. What
// does not end in time is told: the machine's load shall not decide what is weighed.
void try_to(const std::function<void()>& weigh);
// The trial with its bounds, as data's next.
void keep(std::unique_ptr<ReferenceTrial> trial, const TrialSeeds& seeds, ReferenceData& data);
// Takes a recorded forward into `data`: its work, and where all of its weights are known the plan, which comes back and
// looks into data.plan_payload.
std::optional<Plan> keep(ReferenceProcess::Recorded forward, ReferenceData& data);

}  // namespace tritonforge::evaluate
