#include "dataset/stages/kept_answers.h"

#include "base/line_tail.h"

namespace tritonforge::dataset {

KeptAnswers::KeptAnswers(fs::path file) : file_(std::move(file)) {
  for (const std::string& text : LineTail(file_).poll()) {
    const Json line = parse_json_or_discard(text);
    if (line.is_object() && line.contains("key") && line["key"].is_string() && line.contains("answer"))
      answers_[line["key"].get<std::string>()] = line["answer"].dump();
  }
  loaded_ = answers_.size();
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
