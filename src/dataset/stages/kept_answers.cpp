#include "dataset/stages/kept_answers.h"

#include <fstream>

namespace tritonforge::dataset {

KeptAnswers::KeptAnswers(fs::path file) : file_(std::move(file)) {
  std::ifstream lines(file_, std::ios::binary);
  uintmax_t whole = 0;  // bytes of the lines that are
  std::string text;
  while (std::getline(lines, text) && !lines.eof()) {
    const Json line = parse_json_or_discard(text);
    if (line.is_object() && line.contains("key") && line["key"].is_string() && line.contains("answer"))
      answers_[line["key"].get<std::string>()] = line["answer"].dump();
    whole += text.size() + 1;
  }
  loaded_ = answers_.size();
  if (fs::exists(file_) && fs::file_size(file_) != whole) fs::resize_file(file_, whole);
}

std::optional<Json> KeptAnswers::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(key);
  if (found == answers_.end()) return std::nullopt;
  return parse_json(found->second, file_.string());
}

void KeptAnswers::put(const std::string& key, const Json& answer) {
  const std::lock_guard lock(mutex_);
  append_line_durable(file_, Json{{"key", key}, {"answer", answer}}.dump());
  answers_[key] = answer.dump();
}

}  // namespace tritonforge::dataset
