#pragma once
// Every figure of steps.jsonl as columns, a stage at a time: what the page charts and what runs are compared by.
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace tritonforge::dashboard {

class Curves {
 public:
  // A line of steps.jsonl. A step that is there already is replaced. What is no number is no figure.
  void add(const Json& step);
  void clear() { stages_.clear(); }

  struct Stage {
    std::vector<int64_t> steps;                          // in the order of their lines
    std::map<std::string, std::vector<double>> columns;  // each as long as steps; NaN: that step has no such figure
    std::vector<std::pair<int64_t, std::string>> warnings;
    Json last;  // the line that was added last
  };
  const std::map<std::string, Stage>& stages() const { return stages_; }
  // {STAGE: {"every": n, "step": [...], "warnings": [[step, text]], "figures": {NAME: [number or null]},
  // "sums": {NAME: number}}}. Of more than `most` steps every n-th is there, and the last one; sums are of all steps.
  Json to_json(size_t most) const;

 private:
  std::map<std::string, Stage> stages_;
};

}  // namespace tritonforge::dashboard
