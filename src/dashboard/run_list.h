#pragma once
// The runs that a dashboard serves: one folder, or every run in a folder of runs, opened when it is first asked for.
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "dashboard/run_folder.h"

namespace tritonforge::dashboard {

class RunList {
 public:
  static constexpr size_t kMostOpen = 16;  // the one that was not asked for longest is closed
  // `folder`: of one run, or with `many` of runs. Throws kNotFound.
  RunList(fs::path folder, bool many);

  bool many() const { return many_; }
  std::string only() const;  // the name of the one run; "" of many
  // One line a run, the newest first: {"name", "state", "reason", "stage", "progress", "started", "time", "rows"}. A
  // run's state is what its status.json says.
  Json index() const;
  // Of one run the name may be empty. Throws kNotFound with the nearest name; `opened` says whether it was read just
  // now. The reference holds until the next call.
  RunFolder& open(const std::string& name, bool* opened = nullptr);
  std::vector<std::string> names() const;
  std::vector<std::pair<std::string, RunFolder*>> open_runs();
  const fs::path& path() const { return folder_; }

 private:
  fs::path path_of(const std::string& name) const;
  fs::path folder_;
  bool many_;
  std::list<std::pair<std::string, std::unique_ptr<RunFolder>>> open_;  // the last one asked for first
};

}  // namespace tritonforge::dashboard
