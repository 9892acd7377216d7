#pragma once
// `tritonforge bench --self-check`: whether each problem of a set can tell right from wrong.
#include <vector>

#include "contract/problem.h"
#include "evaluate/options.h"

namespace tritonforge::cli {

// One line a problem as they are done, or with `json` one document at the end: {"problems", "admitted", "barred",
// "results": [{"id", "level", "admitted", "reason", "draw", "tolerance", "own_error", "within", "idle", "reduced",
// "wall_s"}]} (src/evaluate/admission.h says what they are).
void self_check(const std::vector<Problem>& problems, const evaluate::EvaluatorOptions& options, bool json);

}  // namespace tritonforge::cli
