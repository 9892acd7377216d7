#pragma once
// The runs that a dashboard serves: one folder, or every run in a folder of runs, opened when it is first asked for.
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "dashboard/run_folder.h"

namespace tritonforge::dashboard {

class RunList {
 public:
  // More are open only while somebody follows each of them: the one that was not asked for longest is closed.
  static constexpr size_t kMostOpen = 16;
  static constexpr size_t kKept = 8;  // that were asked for last stay open in any case: a comparison holds so many
  using Followed = std::function<bool(const std::string& name)>;
  // `folder`: of one run, or with `many` of runs. Throws kNotFound.
  RunList(fs::path folder, bool many);

  bool many() const { return many_; }
  std::string only() const;  // the name of the one run; "" of many
  // One line a run, the newest first: {"name", "state", "reason", "stage", "progress", "started", "time", "rows"}. A
  // run's state is what its status.json says.
  Json index() const;
  using Begin = std::function<void(RunFolder& run)>;
  // Of one run the name may be empty. Throws kNotFound with the nearest name. A run that is not open yet is given to
  // `begin` first: what that throws leaves it closed. The reference holds for the next kKept - 1 calls; of a run that
  // is `followed`, while it is.
  RunFolder& open(const std::string& name, const Followed& followed, const Begin& begin = [](RunFolder&) {});
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
