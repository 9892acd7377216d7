#include "base/line_tail.h"

#include <fstream>

namespace tritonforge {

std::vector<std::string> LineTail::poll() {
  std::error_code missing;
  const uint64_t size = fs::file_size(path_, missing);
  if (missing) return {};
  if (size < offset_) offset_ = 0;
  if (size == offset_) return {};
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset_));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    offset_ += line.size() + 1;
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

std::string last_line(const fs::path& file) {
  if (!fs::exists(file)) return "";
  std::string text = read_file(file);
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace tritonforge
