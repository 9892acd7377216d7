#pragma once
// Verdicts on candidates. The trusted side: owns seeds, expected outputs, comparison, clock and verdict, and never runs
// the code that it judges. Thread-safe; at most `workers` evaluations at once, at most `max_queue` more waiting.
//
//   Evaluator evaluator({.mode = EvaluationMode::kInterpret, .workers = 2});
//   EvaluationRequest request;  // problem_source and candidate are set
//   Verdict verdict = evaluator.evaluate(request);
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "contract/verdict.h"
#include "evaluate/admission.h"
#include "evaluate/client.h"
#include "evaluate/lowering.h"
#include "evaluate/request.h"

namespace tritonforge::evaluate {

// Whether candidates can be judged on a problem.
struct ProblemCheck {
  bool admitted = false;  // its reference is told from the controls, and passes as its own candidate
  std::string reason;     // where not
  std::optional<Admission> admission;
  std::map<std::string, std::string> notes;  // of the reference's verdict: sizes, mode
  double wall_s = 0;
};

class Evaluator {
 public:
  // Starts the Python parent and tests the sandbox by trying to break out of it. Throws kMachine, kUsage.
  // Kernels are compiled `elsewhere` where it is given (lowering.h).
  explicit Evaluator(EvaluatorOptions options, LoweringPool::Elsewhere elsewhere = {});
  ~Evaluator();
  // Every fault of candidate or problem is in the verdict. A worker, and a GPU to time on, are waited for until the
  // client's deadline; request.timeout_s and candidate_timeout_s begin when they are there. Where the client leaves,
  // its place in the queue or its worker is free at once: the processes of this candidate alone are killed, what others
  // may share (the problem's reference, compiled kernels) is finished. Throws kUnavailable (queue full), kTimeout (no
  // worker was free by then, or the client left), kUsage (unknown mode), kUnsupported (its compiler is not here).
  Verdict evaluate(const EvaluationRequest& request, const Client& client = {});
  // Ends all processes and starts no more: what is under way, whatever it waits for, ends with kUnavailable.
  void end();
  // Has the problem's reference made in mode plan, by a worker once one is free, so that its first candidate with the
  // same seed and options finds it. Returns at once: whether it is, and not left to that candidate since too many wait.
  bool prepare(EvaluationRequest request);
  // Probes the problem and judges its own reference like a candidate. Throws as evaluate does.
  ProblemCheck check(const std::string& problem_source, const Client& client = {});
  // {"mode", "devices" (of plan mode: DevicePool::status), "sandbox": {layer: state}, "self_test": {attempt: outcome},
  // "workers", "busy", "waiting", "refused", counters}
  Json health() const;
  // What requests are refused for want of a compiler; mode live only where there is a GPU for it.
  Refusals refusals() const;
  // The device is probed before its next job (device_pool.h). Throws kNotFound.
  void reset_device(size_t id);
  const EvaluatorOptions& options() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::evaluate
