#pragma once
// New whole lines of a growing file. A last line without its newline is read again: its writer may be at work on it, or
// have died and the next one cuts it off. A file shorter than its lines were is another one, read from its beginning.
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

class LineTail {
 public:
  explicit LineTail(fs::path path, uint64_t offset = 0) : path_(std::move(path)), offset_(offset) {}
  std::vector<std::string> poll();  // empty where there is no file yet
  uint64_t offset() const { return offset_; }

 private:
  fs::path path_;
  uint64_t offset_;  // behind the last whole line
};

// What a program that has ended said last: the file's last line, without newlines behind it. "" where there is no file.
std::string last_line(const fs::path& file);

}  // namespace tritonforge
