#pragma once
// Problems as candidates meet them: admitted or barred, under the seeds of a request, with what their references give.
// Thread-safe.
#include <optional>

#include "evaluate/plan/gpu_replayers.h"
#include "evaluate/reference_cache.h"
#include "evaluate/runner.h"
#include "evaluate/seeds.h"

namespace tritonforge::evaluate {

// A request's problem, under the seeds that follow from it.
struct Posed {
  EvaluatorOptions options;  // with the mode's defaults
  ReferenceSpec spec;
  ChildLimits limits;
  std::string key;
  uint64_t order_seed;
  std::shared_ptr<const ReferenceData> reference;
};

class Problems {
 public:
  Problems(Children& children, const EvaluatorOptions& options);
  // Of `request` in `mode`, on `device` where that is one of plan mode's; `options` with the mode's defaults.
  // `may_draw`: trials are drawn there, where the problem can be (drawn_reference.h). Notes in the verdict how it is
  // posed. Throws ProblemFault, also of one that is barred, kTimeout, kUnavailable, DeviceFault.
  Posed pose(const EvaluatorOptions& options, const EvaluationRequest& request, EvaluationMode mode, Device* device,
             bool may_draw, const Client& client, Verdict& verdict);
  std::optional<Admission> admission_of(const std::string& source);
  ReferenceCache& references() { return references_; }

 private:
  ReferenceSpec spec_of(const EvaluatorOptions& options, const EvaluationRequest& request, const Seeds& seeds,
                        EvaluationMode mode, Device* draws_on);
  // Whether that is worth asking for.
  bool draws(const EvaluationRequest& request, Device& device);

  const TrialData trial_data_;
  const SipKey process_secret_;
  LruCache<Admission> admissions_;                     // by the problem's source
  LruCache<bool> not_drawn_;                           // likewise
  LruCache<std::shared_ptr<const DrawnForms>> forms_;  // and device
  ReferenceCache references_;
};

}  // namespace tritonforge::evaluate
