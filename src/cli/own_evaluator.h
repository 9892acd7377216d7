#pragma once
// An evaluator of a command's own, for as long as it works.
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/process.h"
#include "evaluate/options.h"

namespace tritonforge::cli {

// For an evaluator in this process, before it starts: its children, which inherit this, see no GPUs but its own.
void choose_gpus(const evaluate::EvaluatorOptions& options);

class OwnEvaluator {
 public:
  // Returns once it answers. Throws what keeps it from starting, with its last words.
  explicit OwnEvaluator(int workers);
  ~OwnEvaluator();
  std::string url() const;

 private:
  int port_;
  Descriptor log_;  // without a name: a kill leaves nothing behind
  std::optional<ChildProcess> process_;
};

}  // namespace tritonforge::cli
