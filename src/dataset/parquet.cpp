#include "dataset/parquet.h"

#include <dlfcn.h>

#include <algorithm>

#include "base/error.h"
#include "dataset/parquet_api.h"

namespace tritonforge::dataset {
namespace {

constexpr const char* kLibrary = "libtritonforge_parquet.so";

// Beside the program, or a folder above it, where the build has its tests.
std::string library_path() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& folder : {program, program.parent_path()}) {
    if (fs::exists(folder / kLibrary, ignored)) return folder / kLibrary;
  }
  return kLibrary;
}

const ParquetApi& load() {
  void* library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorKind::kMachine,
         "Parquet files cannot be read or written here: {} (pip install pyarrow==26.0.1 brings it; JSON lines need "
         "nothing)",
         dlerror());
  }
  const auto table = reinterpret_cast<const ParquetApi* (*)()>(dlsym(library, "tritonforge_parquet_api"));
  if (table == nullptr || table()->abi != kParquetAbi)
    fail(ErrorKind::kMachine, "{} is of another build than this program", kLibrary);
  return *table();
}

const ParquetApi& api() {
  static const ParquetApi& opened = load();  // a failure throws and is tried again at the next call
  return opened;
}

void check(const ParquetFailure& failure, const std::string& where) {
  if (failure.kind == ParquetFailure::kNone) return;
  std::string line = failure.text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  fail(failure.kind == ParquetFailure::kColumns ? ErrorKind::kUsage : ErrorKind::kCorrupt, "{}: {}", where, line);
}

}  // namespace

std::string parquet_missing() {
  try {
    api();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

ParquetReader::ParquetReader(const fs::path& file, std::vector<WantedColumn> wanted)
    : where_(file.string()), wanted_(std::move(wanted)) {
  if (!fs::is_regular_file(file)) fail(ErrorKind::kNotFound, "cannot read {}: no such file", where_);
  check(api().open_file(where_, wanted_, source_), where_);
}

ParquetReader::ParquetReader(std::string_view bytes, std::string where, std::vector<WantedColumn> wanted)
    : where_(std::move(where)), wanted_(std::move(wanted)) {
  check(api().open(bytes, wanted_, source_), where_);
}

ParquetReader::~ParquetReader() = default;
ParquetReader::ParquetReader(ParquetReader&&) noexcept = default;

size_t ParquetReader::groups() const { return source_->groups(); }

Table ParquetReader::read(size_t group) {
  Table table;
  check(source_->read(group, table), where_);
  return table;
}

Table ParquetReader::read_all() {
  Table all;
  for (const WantedColumn& wanted : wanted_) {
    Column& column = all.columns.emplace_back();
    column.name = wanted.name;
    switch (wanted.kind) {
      case ColumnKind::kText: column.values = Texts(); break;
      case ColumnKind::kInteger: column.values = Integers(); break;
      case ColumnKind::kNumber: column.values = Numbers(); break;
      case ColumnKind::kBool: column.values = Bools(); break;
      case ColumnKind::kJson: column.values = Jsons(); break;
      case ColumnKind::kChat: column.values = Chats(); break;
      case ColumnKind::kIntegerList: column.values = IntegerLists(); break;
      case ColumnKind::kFloatList: column.values = FloatLists(); break;
    }
  }
  for (size_t group = 0; group < groups(); ++group) {
    Table part = read(group);
    for (size_t c = 0; c < all.columns.size(); ++c) {
      std::visit(
          [&](auto& into) {
            auto& from = std::get<std::decay_t<decltype(into)>>(part.columns[c].values);
            into.insert(into.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
          },
          all.columns[c].values);
    }
  }
  return all;
}

Table ParquetReader::next(size_t rows) {
  Table table;
  check(source_->next(rows, table), where_);
  return table;
}

ParquetWriter::ParquetWriter(fs::path file) : file_(std::move(file)), unfinished_(file_) { unfinished_ += ".part"; }

ParquetWriter::~ParquetWriter() {
  sink_.reset();
  std::error_code ignored;  // where close() came to its end there is nothing left to remove
  fs::remove(unfinished_, ignored);
}

void ParquetWriter::write(const Table& table) {
  if (sink_ == nullptr) check(api().create(unfinished_.string(), table, sink_), file_.string());
  check(sink_->write(table), file_.string());
}

void ParquetWriter::close() {
  TF_CHECK(sink_ != nullptr, "{}: no table was written, so it has no columns", file_.string());
  check(sink_->close(), file_.string());
  sink_.reset();
  fsync_path(unfinished_);
  fs::rename(unfinished_, file_);
}

std::string parquet_bytes(const Table& table, const std::string& where) {
  for (const Column& column : table.columns) {
    TF_CHECK(column.rows() == table.rows(), "{}: column '{}' has {} rows of {}", where, column.name, column.rows(),
             table.rows());
  }
  std::string bytes;
  check(api().write(table, bytes), where);
  return bytes;
}

std::string arrow_bytes(const Table& table, const std::string& where) {
  std::string bytes;
  check(api().write_arrow(table, bytes), where);
  return bytes;
}

void write_parquet(const fs::path& file, const Table& table) {
  write_file_atomic(file, parquet_bytes(table, file.string()));
}

}  // namespace tritonforge::dataset
