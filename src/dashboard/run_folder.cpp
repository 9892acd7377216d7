#include "dashboard/run_folder.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "base/log.h"
#include "base/nearest.h"

namespace tritonforge::dashboard {
namespace {

constexpr uint64_t kLogTail = 64 << 10;

bool parse_line(const std::string& line, const fs::path& file, Json& out) {
  out = parse_json_or_discard(line);
  if (out.is_object()) return true;
  log::warn("{}: a line that is not a JSON object is skipped: {}", file.string(), line.substr(0, 80));
  return false;
}

}  // namespace

bool is_run(const fs::path& folder) { return fs::exists(folder / "recipe.yaml") || fs::exists(folder / "status.json"); }

void require_run(const fs::path& folder, const std::string& nor) {
  if (is_run(folder)) return;
  fail(ErrorKind::kNotFound, "no run in {}: it has neither recipe.yaml nor status.json{}{}", folder.string(), nor,
       nearest_path_hint(folder));
}

RunFolder::RunFolder(const fs::path& folder)
    : folder_(folder), step_lines_(folder / "steps.jsonl"), trajectories_(folder / "trajectories.jsonl") {
  if (!fs::is_directory(folder))
    fail(ErrorKind::kNotFound, "no run folder {}{}", folder.string(), nearest_path_hint(folder));
}

bool RunFolder::read_json(const std::string& name, std::string& text, Json& value) {
  const fs::path path = folder_ / name;
  std::error_code missing;
  if (!fs::exists(path, missing)) return false;
  std::string now = read_file(path);
  if (now == text) return false;
  text = std::move(now);
  Json parsed;
  if (!parse_line(text, path, parsed)) return false;
  value = std::move(parsed);
  return true;
}

// The rows of the benches that are done while the others are not: result.json is written last.
bool RunFolder::read_rows() {
  Json state;
  if (!result_text_.empty() || !read_json("state.json", state_text_, state)) return false;
  const Json rows = state.value("rows", Json::array());
  if (!rows.is_array() || rows.empty()) return false;
  result_ = {{"stages", rows}, {"wall_s", state.value("wall_s", Json::object())}};
  return true;
}

RunFolder::News RunFolder::poll() {
  News news;
  news.status = read_json("status.json", status_text_, status_);
  news.result = read_json("result.json", result_text_, result_) || read_rows();
  Json value;
  const uint64_t behind = step_lines_.offset();
  auto lines = step_lines_.poll();
  if (step_lines_.offset() < behind) curves_.clear();  // the file was written anew
  for (const auto& line : lines) {
    if (!parse_line(line, folder_ / "steps.jsonl", value)) continue;
    curves_.add(value);
    news.steps.push_back(value);
  }
  const size_t known = trajectories_.size();
  news.more = trajectories_.read();
  news.trajectories = trajectories_.size() != known;
  return news;
}

Json RunFolder::problem(const std::string& id) const {
  std::ifstream file(folder_ / "problems.jsonl", std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const Json problem = parse_json_or_discard(line);
    if (problem.is_object() && problem.value("id", Json()) == Json(id)) return problem;
  }
  return nullptr;
}

Json RunFolder::about() const {
  const fs::path recipe = folder_ / "recipe.yaml", origin = folder_ / "origin.json";
  const auto is_log = [](const fs::path& path) { return path.extension() == ".log"; };
  Json logs = Json::array();
  for (const std::string& name : names_in(folder_ / "logs", is_log)) logs.push_back(fs::path(name).stem().string());
  return {{"recipe", fs::exists(recipe) ? read_file(recipe) : ""},
          {"origin", fs::exists(origin) ? parse_json_or_discard(read_file(origin)) : Json()},
          {"logs", logs}};
}

Json RunFolder::log_tail(const std::string& role) const {
  const auto is_log = [](const fs::path& path) { return path.extension() == ".log"; };
  const auto names = names_in(folder_ / "logs", is_log);
  if (std::find(names.begin(), names.end(), role + ".log") == names.end())
    fail(ErrorKind::kNotFound, "no log of '{}'{}", role, nearest_hint(role + ".log", names));
  const fs::path path = folder_ / "logs" / (role + ".log");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<uint64_t>(file.tellg());
  const uint64_t from = size > kLogTail ? size - kLogTail : 0;
  std::string text(size - from, '\0');
  file.seekg(static_cast<std::streamoff>(from));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (from > 0) text.erase(0, text.find('\n') + 1);
  return {{"role", role}, {"text", std::move(text)}};
}

Json RunFolder::snapshot(size_t trajectory_limit) const {
  Json list = trajectories_.query({.limit = trajectory_limit});
  Json whole = Json::array(), problems = Json::object();
  for (const Json& row : list["rows"]) {
    whole.push_back(trajectories_.at(row["index"].get<size_t>()));
    const auto id = row["problem_id"].get<std::string>();
    if (!problems.contains(id)) problems[id] = problem(id);
  }
  return {{"status", status_},
          {"result", result_},
          {"curves", curves_.to_json(kMostPoints)},
          {"trajectories", std::move(list)},
          {"whole_trajectories", std::move(whole)},
          {"problems", trajectories_.problems("", 0, TrajectoryIndex::kMostRows)},
          {"problem_sources", std::move(problems)},
          {"flags", trajectories_.flags()},
          {"about", about()}};
}

}  // namespace tritonforge::dashboard
