#pragma once
// Verdicts on candidates. The trusted side: owns seeds, expected outputs, comparison, clock and verdict, and never runs
// the code that it judges. Thread-safe; at most `workers` evaluations at once, at most `max_queue` more waiting.
//
//   Evaluator evaluator({.mode = "interpret", .workers = 2});
//   Verdict verdict = evaluator.evaluate({.problem_source = ..., .candidate = ...});
#include <memory>
#include <string>

#include "base/clock.h"
#include "contract/verdict.h"
#include "evaluate/compare.h"

namespace tritonforge::evaluate {

struct EvaluationRequest {
  std::string problem_id;
  std::string problem_source;  // Model, get_inputs, get_init_inputs
  std::string candidate;       // ModelNew
  std::string mode;            // interpret | live; empty: the evaluator's
  std::string backend = "triton";
  uint64_t seed = 42;
  bool fresh_seeds = true;  // mix a secret of this process into the seeds; false: the verdict is reproducible
  int num_correct_trials = 3;
  int num_perf_trials = 100;        // live mode
  bool measure_performance = true;  // live mode
  double timeout_s = 120;           // of the whole evaluation, waiting for a worker included
};

struct EvaluatorOptions {
  std::string mode = "interpret";  // interpret | live
  int workers = 1;
  int max_queue = 256;
  std::string python;            // empty: TRITONFORGE_PYTHON, else the build's
  std::string sandbox = "auto";  // auto: what the machine gives, reported; strict: refuses to start without all of it
  evaluate::Tolerances tolerances;
  // Sizes that a problem is reduced to. 0: in interpret mode 2^17 elements and 2^27 operations, in live mode as they
  // are.
  int64_t max_elements = 0;
  int64_t max_flops = 0;
  double candidate_timeout_s =
      0;  // import, build and all trials of one candidate; 0: 30, in live mode 120 (it compiles there)
  uint64_t memory_bytes = uint64_t{3} << 30;  // of one child, above the warm parent's
  size_t verdict_cache = 4096;                // verdicts
  size_t reference_cache = 0;                 // bytes of inputs and expected outputs; 0: 256 MiB, in live mode 8 GiB
};

class Evaluator {
 public:
  // Starts the Python parent and tests the sandbox by trying to break out of it. Throws kMachine, kUsage.
  explicit Evaluator(EvaluatorOptions options);
  ~Evaluator();
  // Every fault of candidate or problem is in the verdict. Throws kUnavailable (queue full), kTimeout (no worker was
  // free within the request's time), kUsage (unknown mode), kUnsupported (backend).
  Verdict evaluate(const EvaluationRequest& request);
  // {"mode", "device", "sandbox": {layer: state}, "self_test": {attempt: outcome}, "workers", "busy", "waiting",
  // counters}
  Json health() const;
  const EvaluatorOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::evaluate
