#pragma once
// The rows of JSON-lines and Parquet files alike: one JSON object each, with the columns that were asked for.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/parquet.h"
#include "dataset/sources/lines.h"

namespace tritonforge::dataset {

class Records {
 public:
  // `wanted` are the columns of Parquet files (of kind kJson or kText); JSON lines have what they have. An error about
  // a column ends with `hint`: how a column of another name is said.
  Records(std::vector<fs::path> files, std::vector<WantedColumn> wanted, std::string hint);
  std::optional<JsonLine> next();
  const std::vector<fs::path>& files() const { return files_; }

 private:
  std::optional<JsonLine> next_of_table();
  std::vector<fs::path> files_;
  std::vector<WantedColumn> wanted_;
  std::string hint_;
  size_t file_ = 0, row_ = 0, in_table_ = 0;  // row_: rows of the file before the table
  std::optional<JsonLines> lines_;
  std::optional<ParquetReader> reader_;
  Table table_;
};

}  // namespace tritonforge::dataset
