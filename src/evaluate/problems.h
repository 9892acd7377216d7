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
  // Of `request` in `mode`, on `device` where that is one of plan mode's; `options` with the mode's defaults. `draws`:
  // trials are drawn, where the problem can be (ReferenceSpec::draw). Notes in the verdict how it is posed. Throws
  // ProblemFault, also of one that is barred, kTimeout, kUnavailable.
  Posed pose(const EvaluatorOptions& options, const EvaluationRequest& request, EvaluationMode mode, Device* device,
             bool draws, const Client& client, Verdict& verdict);
  // Whether that is worth asking for on `device`.
  bool draws(const EvaluationRequest& request, Device& device);
  // What processes P drew of it was not the same.
  void cannot_be_drawn(const std::string& source);
  std::optional<Admission> admission_of(const std::string& source);
  ReferenceCache& references() { return references_; }

 private:
  ReferenceSpec spec_of(const EvaluatorOptions& options, const EvaluationRequest& request, const Seeds& seeds,
                        EvaluationMode mode, Device* device, bool draws);

  const TrialData trial_data_;
  const SipKey process_secret_;
  LruCache<Admission> admissions_;  // by the problem's source
  LruCache<bool> not_drawn_;        // likewise
  ReferenceCache references_;
};

}  // namespace tritonforge::evaluate
