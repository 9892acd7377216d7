#pragma once
// New whole lines of a growing file. A last line without its newline waits; a file that became shorter is read anew.
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

class LineTail {
 public:
  explicit LineTail(fs::path path, uint64_t offset = 0) : path_(std::move(path)), offset_(offset) {}
  std::vector<std::string> poll();                               // empty where there is no file yet
  uint64_t offset() const { return offset_ - partial_.size(); }  // behind the last whole line

 private:
  fs::path path_;
  uint64_t offset_;
  std::string partial_;
};

}  // namespace tritonforge
