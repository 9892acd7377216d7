#include "dataset/sources/records.h"

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

constexpr size_t kRowsAtATime = 64;

}  // namespace

Records::Records(std::vector<fs::path> files, std::vector<WantedColumn> wanted, std::string hint)
    : files_(std::move(files)), wanted_(std::move(wanted)), hint_(std::move(hint)) {}

std::optional<JsonLine> Records::next() {
  while (file_ < files_.size()) {
    std::optional<JsonLine> found;
    if (files_[file_].extension() == ".parquet") {
      found = next_of_table();
    } else {
      if (!lines_) lines_.emplace(std::vector{files_[file_]});
      found = lines_->next();
    }
    if (found) return found;
    ++file_;
    lines_.reset();
    reader_.reset();
  }
  return std::nullopt;
}

std::optional<JsonLine> Records::next_of_table() {
  try {
    if (!reader_) {
      reader_.emplace(files_[file_], wanted_);
      table_ = {};
      row_ = in_table_ = 0;
    }
    if (in_table_ == table_.rows()) {
      row_ += table_.rows();
      in_table_ = 0;
      table_ = reader_->next(kRowsAtATime);
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    fail(ErrorKind::kUsage, "{}; {}", error.what(), hint_);
  }
  if (table_.rows() == 0) return std::nullopt;
  JsonLine line{fmt::format("{} row {}", files_[file_].string(), row_ + in_table_ + 1), "", OrderedJson::object()};
  for (Column& column : table_.columns) {
    if (auto* texts = std::get_if<Texts>(&column.values)) {
      if (auto& text = (*texts)[in_table_]) line.value[column.name] = std::move(*text);
    } else if (const auto& value = std::get<Jsons>(column.values)[in_table_]) {
      line.value[column.name] = parse_ordered_json(value->text, line.place);
    }
  }
  ++in_table_;
  return line;
}

}  // namespace tritonforge::dataset
