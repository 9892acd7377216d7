#pragma once
// Pairs of problems that are there already: each module gets another solution, which an evaluator has to accept. How
// it is made is the caller's: `tritonforge data capture` takes the code that TorchInductor generates.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "dataset/acceptance.h"

namespace tritonforge::dataset {

// A pair without a solution for each problem: what read_problems reads, and pairs keep their id and split.
std::vector<Pair> read_modules(const fs::path& path);

struct Capture {
  std::string problem, solution;
};
// Or why there is none, in one line. Called by several threads at once.
using CaptureSolution = std::function<Result<Capture>(const std::string& problem)>;

struct CaptureReport {
  int64_t problems = 0, captured = 0, written = 0;
  std::vector<std::string> refused;          // "id: why", in the problems' order
  std::map<std::string, size_t> refused_by;  // how many for which reason
  double seconds = 0;
};

// Calls on_each for every problem in their order, from one thread at a time: with its pair, or nothing where it was
// refused. `evaluate` may be empty: pairs are then marked as not verified. Throws what an evaluator that gives no
// verdict fails with.
CaptureReport capture_pairs(std::vector<Pair> modules, int workers, const CaptureSolution& capture,
                            const EvaluatePair& evaluate, const ConversationTexts& texts,
                            const std::function<void(const Pair*)>& on_each);

}  // namespace tritonforge::dataset
