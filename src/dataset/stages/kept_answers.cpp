#include "dataset/stages/kept_answers.h"

#include <fstream>

namespace tritonforge::dataset {

KeptAnswers::KeptAnswers(fs::path file) : file_(std::move(file)) {
  std::ifstream lines(file_, std::ios::binary);
  for (std::string text; std::getline(lines, text) && !lines.eof(); end_ += text.size() + 1) {
    const Json line = parse_json_or_discard(text);
    if (line.is_object() && line.contains("key") && line["key"].is_string() && line.contains("answer"))
      offsets_[line["key"].get<std::string>()] = end_;
  }
  loaded_ = offsets_.size();
}

Json KeptAnswers::answer_at(uint64_t offset) const {
  std::ifstream lines(file_, std::ios::binary);
  lines.seekg(static_cast<std::streamoff>(offset));
  std::string text;
  std::getline(lines, text);
  return require<Json>(parse_json(text, file_.string()), "answer", file_.string());
}

std::optional<Json> KeptAnswers::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = offsets_.find(key);
  if (found == offsets_.end()) return std::nullopt;
  return answer_at(found->second);
}

void KeptAnswers::put(const std::string& key, const Json& answer) {
  const std::lock_guard lock(mutex_);
  const std::string line = Json{{"key", key}, {"answer", answer}}.dump();
  append_line_durable(file_, line);
  offsets_[key] = end_;
  end_ += line.size() + 1;
}

}  // namespace tritonforge::dataset
