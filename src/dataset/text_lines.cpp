#include "dataset/text_lines.h"

#include <sstream>

#include "base/json.h"

namespace tritonforge::dataset {

std::vector<std::string> read_text_lines(const fs::path& file) {
  std::vector<std::string> texts;
  std::istringstream lines(read_file(file));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = fmt::format("{}:{}", file.string(), ++number);
    texts.push_back(require<std::string>(parse_json(line, where), "text", where));
  }
  return texts;
}

}  // namespace tritonforge::dataset
