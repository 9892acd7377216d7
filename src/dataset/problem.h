#pragma once
// A problem: a PyTorch module in KernelBench's file format (class Model, get_inputs, get_init_inputs).
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

struct Problem {
  std::string id;                     // unique in its set: "level1_19_relu"
  int level = 1;
  int problem_id = 0;                 // KernelBench's number within the level
  std::string name;                   // file name without number and extension
  std::vector<std::string> families;  // operator families it is composed of; empty where unknown
  std::string source;                 // Python
};

// From a folder (level1/19_relu.py, with a first-line comment "# families: a, b"), a .jsonl file with {level, problem_id, name, code}
// or {prompt, label, extra_info, instance_id} (TritonForge's RL lines), or one .py file.
// Throws kNotFound / kUsage naming file and line.
std::vector<Problem> read_problems(const fs::path& path);

// Keeps those with a wanted level and problem id (empty = all); an unknown id throws kUsage naming the nearest.
std::vector<Problem> select_problems(std::vector<Problem> problems, const std::vector<int>& levels, const std::vector<std::string>& ids);

}  // namespace tritonforge
