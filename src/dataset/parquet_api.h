#pragma once
// What libtritonforge_parquet.so offers to parquet.cpp, the only one that opens it. Both are of one build; no exception
// passes from one to the other.
#include "dataset/parquet.h"

namespace tritonforge::dataset {

inline constexpr int kParquetAbi = 3;  // raised with every change of this file or of Table

struct ParquetFailure {
  enum Kind { kNone, kColumns, kBroken } kind = kNone;  // kColumns: a whole file of another form
  std::string text;
};

struct ParquetSource {
  virtual ~ParquetSource() = default;
  virtual size_t groups() const = 0;
  virtual ParquetFailure read(size_t group, Table& table) = 0;
  virtual ParquetFailure next(size_t rows, Table& table) = 0;  // at most so many of the rows that come; none: the end
};

struct ParquetSink {
  virtual ~ParquetSink() = default;
  virtual ParquetFailure write(const Table& table) = 0;
  virtual ParquetFailure close() = 0;
};

struct ParquetApi {
  int abi = kParquetAbi;
  ParquetFailure (*open)(std::string_view bytes, const std::vector<WantedColumn>& wanted,
                         std::unique_ptr<ParquetSource>& source) = nullptr;
  ParquetFailure (*open_file)(const std::string& path, const std::vector<WantedColumn>& wanted,
                              std::unique_ptr<ParquetSource>& source) = nullptr;
  ParquetFailure (*create)(const std::string& path, const Table& schema, std::unique_ptr<ParquetSink>& sink) = nullptr;
  ParquetFailure (*write)(const Table& table, std::string& bytes) = nullptr;
  ParquetFailure (*write_arrow)(const Table& table, std::string& bytes) = nullptr;
};

}  // namespace tritonforge::dataset
