#include "dashboard/run_list.h"

#include <algorithm>

#include "base/nearest.h"
#include "base/pending_folder.h"

namespace tritonforge::dashboard {
namespace {

Json read_or_empty(const fs::path& file) {
  std::error_code missing;
  if (!fs::exists(file, missing)) return Json::object();
  Json json = parse_json_or_discard(read_file(file));
  return json.is_object() ? json : Json::object();
}

}  // namespace

RunList::RunList(fs::path folder, bool many) : folder_(without_slash(folder)), many_(many) {
  if (!fs::is_directory(folder_))
    fail(ErrorKind::kNotFound, "no {} {}{}", many ? "folder of runs" : "run folder", folder.string(),
         nearest_path_hint(folder_));
  if (!many && !is_run(folder_) && !names_in(folder_, is_run).empty())
    fail(ErrorKind::kUsage, "{} is no run but holds some: --runs {} shows them all", folder.string(), folder.string());
}

std::string RunList::only() const { return many_ ? "" : folder_.filename().string(); }

std::vector<std::string> RunList::names() const { return many_ ? names_in(folder_, is_run) : std::vector{only()}; }

fs::path RunList::path_of(const std::string& name) const {
  if (!many_ && (name.empty() || name == only())) return folder_;
  const auto known = names();  // a name that is a path is none of them
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail(ErrorKind::kNotFound, "no run '{}' in {}{}", name, folder_.string(), nearest_hint(name, known));
  return folder_ / name;
}

Json RunList::index() const {
  std::vector<Json> lines;
  for (const std::string& name : names()) {
    const fs::path path = many_ ? folder_ / name : folder_;
    const Json status = read_or_empty(path / "status.json"), state = read_or_empty(path / "state.json");
    Json line = {{"name", name}, {"rows", state.value("rows", Json::array())}};
    for (const char* key : {"state", "reason", "stage", "progress", "started", "time", "done", "left"})
      if (status.contains(key)) line[key] = status[key];
    lines.push_back(std::move(line));
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Json& a, const Json& b) { return a.value("started", 0.0) > b.value("started", 0.0); });
  return lines;
}

RunFolder& RunList::open(const std::string& name, const Followed& followed, const Begin& begin) {
  const std::string wanted = !many_ && name.empty() ? only() : name;
  const auto known = std::find_if(open_.begin(), open_.end(), [&](const auto& one) { return one.first == wanted; });
  if (known != open_.end()) {
    open_.splice(open_.begin(), open_, known);
  } else {
    auto run = std::make_unique<RunFolder>(path_of(wanted));
    begin(*run);
    open_.emplace_front(wanted, std::move(run));
    if (open_.size() > kMostOpen) {
      const auto last = std::prev(open_.rend(), kKept);
      const auto idle = std::find_if(open_.rbegin(), last, [&](const auto& one) { return !followed(one.first); });
      if (idle != last) open_.erase(std::prev(idle.base()));
    }
  }
  return *open_.front().second;
}

std::vector<std::pair<std::string, RunFolder*>> RunList::open_runs() {
  std::vector<std::pair<std::string, RunFolder*>> runs;
  for (const auto& [name, run] : open_) runs.emplace_back(name, run.get());
  return runs;
}

}  // namespace tritonforge::dashboard
