#pragma once
// Modes interpret and live: the candidate's own process runs its kernels, and what it says is a claim.
#include "evaluate/means.h"

namespace tritonforge::evaluate {

// `asked`: kPlan where a candidate is no plan and nothing of it is timed. `device`: of plan mode, where it ran on one.
// Throws as PlanMode::judge.
void judge_in_its_process(Means& means, const EvaluationRequest& request, EvaluationMode asked, Device* device,
                          const Client& client, Verdict& verdict);

}  // namespace tritonforge::evaluate
