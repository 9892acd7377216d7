#pragma once
// SFT pairs: JSON lines of `tritonforge data generate`.
#include <optional>
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

struct Pair {
  std::string id, combo, split;           // split: train | holdout
  std::vector<std::string> families;
  std::string problem, solution;          // Python sources
  std::string wrong, feedback;            // a first attempt that failed and what the evaluator said; empty: none
};

// Throws kNotFound / kUsage naming file and line.
std::vector<Pair> read_pairs(const fs::path& path);

}  // namespace tritonforge
