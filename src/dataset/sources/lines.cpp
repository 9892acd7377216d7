#include "dataset/sources/lines.h"

#include "base/nearest.h"
#include "tokenizer/unicode.h"

namespace tritonforge::dataset {

JsonLine parse_line(std::string_view text, std::string place) {
  JsonLine out{std::move(place), "", nullptr};
  if (!tokenizer::unicode::is_valid_utf8(text)) out.problem = "not UTF-8";
  else if (text.size() > kLongestLine) out.problem = "a line of more than 64 MiB";
  if (!out.problem.empty()) return out;
  try {
    out.value = parse_ordered_json(text, "line");
    if (!out.value.is_object()) out.problem = "not an object";
  } catch (const Error&) {  // where it breaks off says nothing that the place does not
    out.problem = "not JSON";
  }
  return out;
}

std::optional<JsonLine> JsonLines::next() {
  std::string text;
  while (file_ < files_.size()) {
    if (!stream_.is_open()) {
      if (fs::is_directory(files_[file_]))
        fail(ErrorKind::kUsage, "{} is a folder; a file is needed", files_[file_].string());
      stream_.open(files_[file_], std::ios::binary);
      if (!stream_)
        fail(ErrorKind::kNotFound, "cannot read {}{}", files_[file_].string(), nearest_path_hint(files_[file_]));
      line_ = 0;
    }
    while (std::getline(stream_, text)) {
      ++line_;
      if (line_ == 1 && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      return parse_line(text, fmt::format("{}:{}", files_[file_].string(), line_));
    }
    if (stream_.bad()) fail(ErrorKind::kCorrupt, "cannot read {} behind line {}", files_[file_].string(), line_);
    stream_.close();
    stream_.clear();
    ++file_;
  }
  return std::nullopt;
}

}  // namespace tritonforge::dataset
