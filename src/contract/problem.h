#pragma once
// A problem: a PyTorch module in KernelBench's file format (class Model, get_inputs, get_init_inputs).
#include <string>
#include <vector>

namespace tritonforge {

struct Problem {
  std::string id;  // unique in its set: "level1_19_relu"
  int level = 1;
  int problem_id = 0;                 // KernelBench's number within the level
  std::string name;                   // file name without number and extension
  std::vector<std::string> families;  // operator families it is composed of; empty where unknown
  std::string source;                 // Python
};

}  // namespace tritonforge
