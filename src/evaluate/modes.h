#pragma once
// Which mode a request is judged in, and what it is refused for want of a GPU or a compiler.
#include <string>

#include "evaluate/languages/language.h"
#include "evaluate/request.h"
#include "evaluate/zygote.h"

namespace tritonforge::evaluate {

// Checked, and with sizes of caches in place of 0. Throws kUsage.
EvaluatorOptions validated(EvaluatorOptions options);
// With the mode's defaults in place of 0.
EvaluatorOptions options_for(EvaluationMode mode, EvaluatorOptions options);

// Why no child can be granted a GPU; empty where one can. Throws kMachine where the options' own mode needs one.
std::string why_no_gpu(const EvaluatorOptions& options);

class Modes {
 public:
  // `no_gpu`: why_no_gpu's. Throws kMachine, kUnsupported where the options' own mode is not possible here.
  Modes(const EvaluatorOptions& options, std::string no_gpu, const Zygote& zygote);
  // Throws kUsage (no GPU for it), kUnsupported (its compiler is not here).
  EvaluationMode of(const EvaluationRequest& request) const;
  // Also where the machine's GPU and the children's torch are of different makes; empty where children can use it.
  std::string why_not_on_a_gpu() const;
  // Why what is no plan cannot be run in mode live; null where it can.
  const Refused* refused_live() const;
  // What requests are refused for want of a compiler; mode live only where there is a GPU for it.
  Refusals refusals() const;

 private:
  const EvaluationMode default_;
  const std::string no_gpu_;
  const bool rocm_;  // the torch of the children is a ROCm build
  const Refusals refusals_;
};

}  // namespace tritonforge::evaluate
