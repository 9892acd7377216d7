#pragma once
// What cost an evaluation or a teacher's answer, kept by key: an answer is durable before it is used, so that a build
// that was killed asks for none of them again. JSON lines; a line that was cut off by the kill is as if it were not
// there. In memory are keys and places alone; an answer is read from the file when it is asked for.
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge::dataset {

class KeptAnswers {
 public:
  explicit KeptAnswers(fs::path file);
  std::optional<Json> find(const std::string& key) const;
  void put(const std::string& key, const Json& answer);
  size_t found() const { return loaded_; }  // that were there at the start

 private:
  Json answer_at(uint64_t offset) const;

  fs::path file_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, uint64_t> offsets_;  // of an answer's line in the file
  uint64_t end_ = 0;                                   // of the whole lines
  size_t loaded_ = 0;
};

}  // namespace tritonforge::dataset
