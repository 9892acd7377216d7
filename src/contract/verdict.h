#pragma once
// What the evaluator says about one candidate (design section 5). The old /eval reply is a view of it.
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace tritonforge {

// How far the candidate came; later stages imply the earlier ones.
enum class Stage { kNone, kExtracted, kParsed, kImported, kCompiled, kLaunched, kCorrect, kTimed };
std::string_view name_of(Stage stage);
Stage parse_stage(std::string_view name);  // throws kUsage

struct Trial {  // one correctness trial
  uint64_t seed = 0;
  bool passed = false;
  double max_abs_error = 0;  // worst |candidate - reference|
  double max_rel_error = 0;  // worst |candidate - reference| / (atol + rtol |reference|); <= 1 passes
  std::string mismatch;      // "output 0 at [3, 17]: 0.25, expected 1.5 (1024 of 4096 wrong)"; empty where it passed
};

struct Timing {  // milliseconds
  double mean = 0, median = 0, std = 0, min = 0, max = 0;
  int samples = 0;
};

struct Flag {        // a cheat or a doubt
  std::string name;  // "no_kernel_launched", "input_mutated", ...
  std::string evidence;
  bool cheat = true;  // a doubt (false) is reported only
};

struct Verdict {
  Stage stage = Stage::kNone;
  bool compiled = false;
  bool correct = false;
  std::vector<Trial> trials;
  Timing runtime, ref_runtime;               // of stage timed
  double speedup = 0;                        // lower bound of the interval; 0 where not timed
  double speedup_low = 0, speedup_high = 0;  // 95 % interval of the median ratio
  std::string error_kind;   // "syntax_error", "import_error", "compile_error", "runtime_error", "mismatch", "timeout",
                            // "out_of_memory", "crashed", "forbidden", "problem_error", ""
  std::string diagnostics;  // compiler text, exception and line, worst mismatch: what the model is shown
  std::vector<Flag> flags;
  std::map<std::string, std::string> compile_targets;  // "sm_90" -> "ok" | first error line
  std::vector<std::string> kernels;                    // names of the candidate's own kernels that were launched
  std::string device, mode;                            // "cpu" / GPU name; interpret | plan | live
  std::map<std::string, std::string> notes;            // reduced sizes, sandbox layers, cache, ...
  uint64_t seed = 0;
  double wall_s = 0;

  bool cheated() const;
};

Json to_json(const Verdict& verdict);
Verdict verdict_from_json(const Json& json);  // throws kUsage naming the field
// KernelExecResult of the original's /eval: {compiled, correctness, metadata, runtime, runtime_stats}.
Json to_kernel_exec_result(const Verdict& verdict);

}  // namespace tritonforge
