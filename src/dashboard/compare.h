#pragma once
// Runs side by side: what differs in their recipes, what came of them, and their figures at equal steps.
#include <string>
#include <vector>

#include "dashboard/run_folder.h"

namespace tritonforge::dashboard {

// {"runs": [names],
//  "recipe": [{"key": "rl.steps", "values": [text or null]}]           keys whose values differ,
//  "results": [{"name", "label", "turns", "rows": [row of result.json or null]}],
//  "steps": [{"stage", "step", "figures": {NAME: [number or null]}}]}  at most eight steps that all of them have, the
// last among them; a figure that no run has is absent. `names` are those of `runs`.
Json compare_runs(const std::vector<const RunFolder*>& runs, const std::vector<std::string>& names);
std::string comparison_text(const Json& comparison);  // the same for a terminal

}  // namespace tritonforge::dashboard
