#pragma once
// What the evaluator says about one candidate (design section 5). The old /eval reply is a view of it.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/named_enum.h"
#include "contract/profile.h"

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

// Why a candidate is not correct, or a turn has no verdict on one: "error_kind" in JSON.
enum class Fault {
  kNone,
  kSyntaxError,  // the candidate's: from its source to its output
  kImportError,
  kCompileError,
  kRuntimeError,
  kMismatch,
  kForbidden,  // it reached for what the sandbox or the protocol denies
  kUnproven,   // its outputs agree, but only its own process says that its kernels made them
  kNotRun,     // its kernels compile, and there is no device here that runs them
  kTimeout,
  kOutOfMemory,
  kCrashed,
  kProblemError,  // the problem's own code failed: says nothing about the candidate
  kTruncated,     // of a turn (rollout): there is no candidate
  kNoCode,
  kPromptTooLong,
  kEngineFailed,
  kEvaluatorFailed,
  kInternal,
};
constexpr std::array<std::string_view, 19> names_of(Fault) {
  return {
      "",         "syntax_error",    "import_error",  "compile_error",    "runtime_error", "mismatch",      "forbidden",
      "unproven", "not_run",         "timeout",       "out_of_memory",    "crashed",       "problem_error", "truncated",
      "no_code",  "prompt_too_long", "engine_failed", "evaluator_failed", "internal"};
}
// The same candidate on the same problem gets it again; the others can depend on how busy the machine was.
constexpr bool lasting(Fault fault) {
  return fault != Fault::kTimeout && fault != Fault::kOutOfMemory && fault != Fault::kCrashed &&
         fault != Fault::kProblemError;
}

// What a flag says: a cheat, which makes the candidate worth nothing, or a doubt, which is reported only.
enum class Cheat {
  kNoKernelLaunched,
  kNoKernelEffect,  // the output is the same with every launch left out
  kKernelFallback,  // a launch failed and its error was swallowed
  kInputMutated,
  kOutputIsInput,
  kLazyOutput,
  kMonkeypatch,
  kProtocolForgery,
  kClockMismatch,
  kTimedOutputWrong,
  kTorchDoesTheWork,  // own_share is below what the evaluator asks for
  kForbiddenAccess,   // doubts from here on; this one and the next: what the source says before it runs
  kDynamicCode,
  kTrivialReference,
  kExcessiveSpeedup,
};
constexpr std::array<std::string_view, 15> names_of(Cheat) {
  return {"no_kernel_launched",  "no_kernel_effect", "kernel_fallback",  "input_mutated",     "output_is_input",
          "lazy_output",         "monkeypatch",      "protocol_forgery", "clock_mismatch",    "timed_output_wrong",
          "torch_does_the_work", "forbidden_access", "dynamic_code",     "trivial_reference", "excessive_speedup"};
}
constexpr bool is_doubt(Cheat cheat) { return cheat >= Cheat::kForbiddenAccess; }

// What runs a candidate: Triton's interpreter on the CPU; a recording of it, replayed by the trusted side on the CPU; a
// GPU.
enum class EvaluationMode { kInterpret, kPlan, kLive };
constexpr std::array<std::string_view, 3> names_of(EvaluationMode) { return {"interpret", "plan", "live"}; }

// What a kernel is compiled for, with that device's limits of memory and threads. No such device is needed.
enum class Target { kSm90, kGfx942 };
constexpr std::array<std::string_view, 2> names_of(Target) { return {"sm_90", "gfx942"}; }

struct Flag {
  Cheat kind;
  std::string evidence;
  bool cheat() const { return !is_doubt(kind); }
};

struct Verdict {
  Stage stage = Stage::kNone;
  bool compiled = false;
  bool correct = false;
  std::vector<Trial> trials;
  Timing runtime, ref_runtime;  // of stage timed
  // Lower bound of the interval, against the faster baseline, by the trusted side's clock: mode plan on a GPU alone. 0
  // where not timed.
  double speedup = 0;
  double claimed_speedup = 0;                // the same by the clock of the candidate's own process (mode live)
  double speedup_low = 0, speedup_high = 0;  // 95 % interval of the median ratio
  // The baselines, each by itself; no samples: it was not timed. The speedups are as speedup, each over its own.
  Timing eager_runtime, torch_compile_runtime;
  double eager_speedup = 0, torch_compile_speedup = 0;
  Fault fault = Fault::kNone;
  std::string diagnostics;  // compiler text, exception and line, worst mismatch: what the model is shown
  std::vector<Flag> flags;
  std::map<std::string, std::string> compile_targets;  // "sm_90" -> "ok" | first error line
  std::vector<std::string> kernels;                    // names of the candidate's own kernels that were launched
  std::string device;                                  // "cpu" / GPU name
  std::optional<EvaluationMode> mode;                  // nothing where no evaluator ran it
  std::optional<double> own_share;           // of the work, that the candidate's own kernels do: evaluate/plan/work.h
  std::optional<Profile> profile;            // where its time was measured on a GPU
  std::vector<KernelCounters> counters;      // where they were asked for, and the profiler gave any
  std::vector<std::string> claimed;          // claimed_fields(mode)
  std::map<std::string, std::string> notes;  // reduced sizes, sandbox layers, cache, ...
  uint64_t seed = 0;
  double wall_s = 0;
  std::map<std::string, double> seconds;  // of wall_s, by part: evaluate/spent.h

  bool cheated() const;
};

// Every field of a verdict is measured by the trusted side, but for these, which rest on the word of the candidate's
// own process: where that makes the calls, the outputs are compared, but what made them, what was compiled and why it
// failed are claims. So is all that is timed in live mode, where the clock is read in that process.
std::vector<std::string> claimed_fields(EvaluationMode mode);

// Of a verdict's notes, or of a problem's check: which of the problem's sizes were halved, name -> "4096 -> 512".
std::map<std::string, std::string> reduced_sizes(const std::map<std::string, std::string>& notes);

Json to_json(const Verdict& verdict);
// Throws kUsage naming the field. Of a verdict that was written before eager had figures of its own, the faster
// baseline's are eager's where no other was timed; else eager was not timed, as far as anybody knows.
Verdict verdict_from_json(const Json& json);
// KernelExecResult of the legacy /eval: {compiled, correctness, metadata, runtime, runtime_stats}.
Json to_kernel_exec_result(const Verdict& verdict);

}  // namespace tritonforge
