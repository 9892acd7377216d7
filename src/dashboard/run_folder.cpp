#include "dashboard/run_folder.h"

#include <algorithm>
#include <fstream>

#include "base/log.h"

namespace tritonforge::dashboard {
namespace {

bool parse_line(const std::string& line, const fs::path& file, Json& out) {
  out = parse_json_or_discard(line);
  if (out.is_object()) return true;
  log::warn("{}: a line that is not a JSON object is skipped: {}", file.string(), line.substr(0, 80));
  return false;
}

}  // namespace

Json without_tokens(Json trajectory) {
  const auto turns = trajectory.find("turns");
  if (turns == trajectory.end() || !turns->is_array()) return trajectory;
  for (Json& turn : *turns) {
    if (!turn.is_object()) continue;
    for (const auto* key : {"prompt_tokens", "response_tokens", "log_probs", "weight_versions"}) {
      const auto found = turn.find(key);
      if (found == turn.end()) continue;
      if (found->is_array()) turn[std::string(key) + "_count"] = found->size();
      turn.erase(key);
    }
  }
  return trajectory;
}

RunFolder::RunFolder(const fs::path& folder)
    : folder_(folder), step_lines_(folder / "steps.jsonl"), trajectory_lines_(folder / "trajectories.jsonl") {
  if (!fs::is_directory(folder)) fail(ErrorKind::kNotFound, "no run folder {}", folder.string());
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
  for (const auto& line : step_lines_.poll()) {
    if (parse_line(line, folder_ / "steps.jsonl", value)) news.steps.push_back(value);
  }
  auto lines = trajectory_lines_.poll();
  const size_t skipped = lines.size() - std::min(lines.size(), kKeptTrajectories);
  for (size_t i = skipped; i < lines.size(); ++i) {
    if (parse_line(lines[i], folder_ / "trajectories.jsonl", value)) news.trajectories.push_back(without_tokens(value));
  }
  steps_.insert(steps_.end(), news.steps.begin(), news.steps.end());
  trajectories_.insert(trajectories_.end(), news.trajectories.begin(), news.trajectories.end());
  while (trajectories_.size() > kKeptTrajectories) trajectories_.pop_front();
  return news;
}

std::vector<Json> RunFolder::trajectories(size_t limit) const {
  std::vector<Json> newest;
  for (auto it = trajectories_.rbegin(); it != trajectories_.rend() && newest.size() < limit; ++it)
    newest.push_back(*it);
  return newest;
}

Json RunFolder::snapshot(size_t trajectory_limit) const {
  return {
      {"status", status_}, {"steps", steps_}, {"trajectories", trajectories(trajectory_limit)}, {"result", result_}};
}

}  // namespace tritonforge::dashboard
