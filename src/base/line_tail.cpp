#include "base/line_tail.h"

#include <fstream>
#include <string_view>

namespace tritonforge {

std::vector<std::string> LineTail::poll() {
  std::error_code missing;
  const uint64_t size = fs::file_size(path_, missing);
  if (missing) return {};
  if (size < offset_) {
    offset_ = 0;
    partial_.clear();
  }
  if (size == offset_) return {};
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset_));
  std::vector<std::string> lines;
  std::vector<char> chunk(1 << 20);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    std::string_view bytes(chunk.data(), static_cast<size_t>(file.gcount()));
    offset_ += bytes.size();
    for (size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
      partial_ += bytes.substr(0, end);
      if (!partial_.empty()) lines.push_back(std::move(partial_));
      partial_.clear();
    }
    partial_ += bytes;
  }
  return lines;
}

}  // namespace tritonforge
