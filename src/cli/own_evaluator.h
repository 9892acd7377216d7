#pragma once
// An evaluator of a command's own, for as long as it works.
#include <optional>
#include <string>

#include "base/filesystem.h"
#include "base/process.h"

namespace tritonforge::cli {

class OwnEvaluator {
 public:
  // Returns once it answers. Throws what keeps it from starting, with its last words.
  explicit OwnEvaluator(int workers);
  ~OwnEvaluator();
  std::string url() const;

 private:
  int port_;
  TemporaryFolder folder_;
  std::optional<ChildProcess> process_;
};

}  // namespace tritonforge::cli
