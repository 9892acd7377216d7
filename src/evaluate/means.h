#pragma once
// What all evaluations of one evaluator share. Thread-safe, and outlives them.
#include <optional>

#include "evaluate/modes.h"
#include "evaluate/plan/profiler.h"
#include "evaluate/problems.h"

namespace tritonforge::evaluate {

struct Means {
  const EvaluatorOptions options;
  const std::string no_gpu;  // why no child can be granted one
  Zygote zygote;
  const Modes modes;
  LoweringPool lowering;
  Problems problems;
  const std::optional<Profiler> profiler;  // where hardware counters are asked for

  // Starts the Python parent. Throws kMachine, kUsage, kUnsupported, kNotFound where there is no ncu to profile with.
  Means(EvaluatorOptions given, LoweringPool::Elsewhere elsewhere);
  // `device`: RunContext::device. What it refers to outlives the runner.
  RunContext context(const Posed& posed, const EvaluationRequest& request, Device* device, const Client& client);
};

}  // namespace tritonforge::evaluate
