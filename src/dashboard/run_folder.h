#pragma once
// A run's folder as the orchestrator writes it (docs/protocols.md, "Dashboard"), read while it grows.
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"
#include "base/line_tail.h"
#include "dashboard/curves.h"
#include "dashboard/trajectory_index.h"

namespace tritonforge::dashboard {

bool is_run(const fs::path& folder);                                    // it has a recipe.yaml or a status.json
void require_run(const fs::path& folder, const std::string& nor = "");  // kNotFound; `nor`: what else it might have had

class RunFolder {
 public:
  static constexpr size_t kMostPoints = 2000;  // of a curve, in curves() and snapshot()
  explicit RunFolder(const fs::path& folder);  // throws kNotFound

  struct News {
    bool status = false, result = false;
    std::vector<Json> steps;
    bool trajectories = false;
    bool more = false;  // trajectories are there that were not read yet: poll again
  };
  // Reads what is new. A line or file that is not JSON is skipped with a warning (status.json keeps its last value).
  News poll();

  const Json& status() const { return status_; }  // {} until there is one
  const Json& result() const { return result_; }  // null until a bench is done; without a seed until all are
  const Curves& curves() const { return curves_; }
  const TrajectoryIndex& trajectories() const { return trajectories_; }
  // {"id", "source"} of problems.jsonl; null where it is not there.
  Json problem(const std::string& id) const;
  Json about() const;                            // {"recipe": text, "origin": {...}, "logs": [names]}
  Json log_tail(const std::string& role) const;  // {"role", "text"}: its last 64 KiB. Throws kNotFound
  // All that the page shows of it, with the newest trajectories and their problems: what a report holds.
  Json snapshot(size_t trajectory_limit) const;
  const fs::path& path() const { return folder_; }

 private:
  bool read_json(const std::string& name, std::string& text, Json& value);
  bool read_rows();
  fs::path folder_;
  LineTail step_lines_;
  TrajectoryIndex trajectories_;
  std::string status_text_, result_text_, state_text_;
  Json status_ = Json::object(), result_;
  Curves curves_;
};

}  // namespace tritonforge::dashboard
