#pragma once
// Parquet files as plain columns. Arrow's types stay in libtritonforge_parquet.so (src/dataset/parquet/), which is
// opened at the first use: a program that reads no Parquet starts as fast as without it, and one that is carried to a
// machine without Arrow runs there. What fails there is Parquet alone, kMachine.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/filesystem.h"
#include "base/named_enum.h"

namespace tritonforge::dataset {

// UTF-8; int64; double; bool; any type, nested ones too, read as JSON; and, written only: conversations, lists of
// int64, lists of float.
enum class ColumnKind { kText, kInteger, kNumber, kBool, kJson, kChat, kIntegerList, kFloatList };
constexpr std::array<std::string_view, 8> names_of(ColumnKind) {
  return {"text",   "integers",      "numbers",           "booleans",
          "values", "conversations", "lists of integers", "lists of numbers"};
}

// One entry a row; nothing where the file has a null.
using Texts = std::vector<std::optional<std::string>>;
using Integers = std::vector<std::optional<int64_t>>;
using Numbers = std::vector<std::optional<double>>;
using Bools = std::vector<std::optional<bool>>;
struct JsonText {
  std::string text;
  bool operator==(const JsonText&) const = default;
};
using Jsons = std::vector<std::optional<JsonText>>;
// A conversation is a list of {role, content, reasoning_content, weight}: weight 1 = learned from (OpenAI's name).
struct ChatCell {
  std::string role, content;
  std::optional<std::string> reasoning_content;
  int64_t weight = 0;
  bool operator==(const ChatCell&) const = default;
};
using Chats = std::vector<std::optional<std::vector<ChatCell>>>;
using IntegerLists = std::vector<std::vector<int64_t>>;
using FloatLists = std::vector<std::vector<float>>;

struct Column {
  std::string name;
  std::variant<Texts, Integers, Numbers, Bools, Jsons, Chats, IntegerLists, FloatLists> values;  // as in ColumnKind

  ColumnKind kind() const { return static_cast<ColumnKind>(values.index()); }
  size_t rows() const {
    return std::visit([](const auto& list) { return list.size(); }, values);
  }
  bool operator==(const Column&) const = default;
};

struct Table {
  std::vector<Column> columns;  // all of the same length
  size_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
  bool operator==(const Table&) const = default;
};

struct WantedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::kText;
  bool required = true;  // false: one that is not there reads as nulls
};

struct ParquetSource;  // parquet_api.h
struct ParquetSink;

std::string parquet_missing();  // why Parquet files cannot be read or written here; "" where they can

// A file of anybody's: 32-bit integers, dictionaries, large strings, any compression. Read by its row groups, so that a
// data set need not fit in memory; a row group of more than 4 GiB is refused. Not for several threads.
class ParquetReader {
 public:
  // Throws kNotFound; kCorrupt where it is no Parquet file or is cut off; kUsage where a column that is wanted is not
  // there or of another type, with what is there. Each is one line that begins with the file.
  ParquetReader(const fs::path& file, std::vector<WantedColumn> wanted);
  // The same of `bytes`, which must outlive it; `where` begins its errors.
  ParquetReader(std::string_view bytes, std::string where, std::vector<WantedColumn> wanted);
  ~ParquetReader();
  ParquetReader(ParquetReader&&) noexcept;

  size_t groups() const;
  Table read(size_t group);  // the wanted columns in their order; throws kCorrupt
  Table read_all();
  // The rows in their order, at most so many at a time, whatever a row group holds; no rows: the end.
  Table next(size_t rows);

 private:
  std::string where_;
  std::vector<WantedColumn> wanted_;
  std::unique_ptr<ParquetSource> source_;
};

// Row group after row group, beside `file` until close() makes it durable and names it so: without close() there is
// no file. Every table has the columns of the first.
class ParquetWriter {
 public:
  explicit ParquetWriter(fs::path file);
  ~ParquetWriter();
  void write(const Table& table);
  void close();

 private:
  fs::path file_, unfinished_;
  std::unique_ptr<ParquetSink> sink_;
};

// Durable and atomic, compressed with zstd. Text that is not UTF-8 is refused: kUsage.
void write_parquet(const fs::path& file, const Table& table);
std::string parquet_bytes(const Table& table, const std::string& where);

// The same as a stream of Arrow's own form (IPC), which other programs read without a copy.
inline constexpr char kArrowContentType[] = "application/vnd.apache.arrow.stream";
std::string arrow_bytes(const Table& table, const std::string& where);

}  // namespace tritonforge::dataset
