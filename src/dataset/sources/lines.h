#pragma once
// The lines of JSON-lines files, one after another, of any number of files; no file is held whole.
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge::dataset {

inline constexpr size_t kLongestLine = size_t{64} << 20;

struct JsonLine {
  std::string place;    // FILE:LINE
  std::string problem;  // why it is no JSON object; then `value` is null
  OrderedJson value;
};

// What a line of JSON lines is: an object, or why it is none ("not JSON", "not UTF-8", "not an object").
JsonLine parse_line(std::string_view text, std::string place);

class JsonLines {
 public:
  explicit JsonLines(std::vector<fs::path> files) : files_(std::move(files)) {}
  std::optional<JsonLine> next();  // blank lines are passed over; a BOM at a file's start too

 private:
  std::vector<fs::path> files_;
  size_t file_ = 0, line_ = 0;
  std::ifstream stream_;
};

}  // namespace tritonforge::dataset
