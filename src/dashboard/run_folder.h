#pragma once
// A run's folder as the orchestrator writes it (docs/protocols.md, "Dashboard"), read while it grows.
#include <deque>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"
#include "base/line_tail.h"

namespace tritonforge::dashboard {

// A trajectory as the page shows it: without token ids, log-probabilities and weight versions.
Json without_tokens(Json trajectory);

class RunFolder {
 public:
  static constexpr size_t kKeptTrajectories = 200;
  explicit RunFolder(const fs::path& folder);  // throws kNotFound

  struct News {
    bool status = false, result = false;
    std::vector<Json> steps, trajectories;
  };
  // Reads what is new. A line or file that is not JSON is skipped with a warning (status.json keeps its last value).
  News poll();

  const Json& status() const { return status_; }  // {} until there is one
  const Json& result() const { return result_; }  // null until a bench is done; without a seed until all are
  const std::vector<Json>& steps() const { return steps_; }
  std::vector<Json> trajectories(size_t limit) const;  // newest first
  Json snapshot(size_t trajectory_limit) const;        // {"status", "steps", "trajectories", "result"}
  const fs::path& path() const { return folder_; }

 private:
  bool read_json(const std::string& name, std::string& text, Json& value);
  bool read_rows();
  fs::path folder_;
  LineTail step_lines_, trajectory_lines_;
  std::string status_text_, result_text_, state_text_;
  Json status_ = Json::object(), result_;
  std::vector<Json> steps_;
  std::deque<Json> trajectories_;
};

}  // namespace tritonforge::dashboard
