// libtritonforge_parquet.so: the one place that knows Arrow. What a foreign file claims of itself is checked before it
// is used (ValidateFull: offsets, UTF-8), and what it may make us allocate is bounded.
#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "dataset/parquet_api.h"

namespace tritonforge::dataset {
namespace {

constexpr int64_t kMostBytes = int64_t{4} << 30;  // of one row group, decompressed
constexpr int64_t kBatchRows = 256;               // decoded at a time by next()
constexpr int kDeepest = 8;                       // lists and structs within one another

[[noreturn]] void broken(const std::string& why) { throw ParquetFailure{ParquetFailure::kBroken, why}; }

void check(const arrow::Status& status, const char* what) {
  if (!status.ok()) broken(std::string(what) + ": " + status.ToString());
}

template <typename T>
T value_of(arrow::Result<T> result, const char* what) {
  check(result.status(), what);
  return std::move(result).ValueUnsafe();
}

// Runs `work`, and makes whatever it throws a failure.
template <typename Work>
ParquetFailure guarded(Work&& work) {
  try {
    work();
    return {};
  } catch (const ParquetFailure& failure) {
    return failure;
  } catch (const std::exception& error) {
    return {ParquetFailure::kBroken, std::string("not a Parquet file that can be read: ") + error.what()};
  }
}

// What JSON can say of a value of this type.
bool is_plain(const arrow::DataType& type, int depth) {
  if (depth > kDeepest) return false;
  if (type.id() == arrow::Type::DICTIONARY) return false;
  if (type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
      type.id() == arrow::Type::FIXED_SIZE_LIST || type.id() == arrow::Type::STRUCT) {
    return std::all_of(type.fields().begin(), type.fields().end(),
                       [&](const auto& field) { return is_plain(*field->type(), depth + 1); });
  }
  return arrow::is_string(type.id()) || arrow::is_integer(type.id()) || type.id() == arrow::Type::FLOAT ||
         type.id() == arrow::Type::DOUBLE || type.id() == arrow::Type::BOOL || type.id() == arrow::Type::NA;
}

bool fits(const arrow::DataType& type, ColumnKind kind) {
  if (type.id() == arrow::Type::DICTIONARY)
    return fits(*static_cast<const arrow::DictionaryType&>(type).value_type(), kind);
  switch (kind) {
    case ColumnKind::kText: return arrow::is_string(type.id());
    case ColumnKind::kInteger: return arrow::is_integer(type.id());
    case ColumnKind::kNumber:
      return arrow::is_integer(type.id()) || type.id() == arrow::Type::FLOAT || type.id() == arrow::Type::DOUBLE;
    case ColumnKind::kBool: return type.id() == arrow::Type::BOOL;
    case ColumnKind::kJson: return is_plain(type, /*depth=*/0);
    case ColumnKind::kChat:
    case ColumnKind::kIntegerList:
    case ColumnKind::kFloatList: return false;
  }
  return false;
}

template <typename Array, typename Values, typename Read>
void append(const arrow::Array& array, Values& values, Read&& read) {
  const auto& typed = static_cast<const Array&>(array);
  for (int64_t i = 0; i < typed.length(); ++i) {
    if (typed.IsNull(i)) values.emplace_back();
    else values.emplace_back(read(typed, i));
  }
}

template <typename Type, typename Values>
void append_numbers(const arrow::Array& array, Values& values) {
  using Value = typename Values::value_type::value_type;
  append<arrow::NumericArray<Type>>(array, values, [](const auto& typed, int64_t i) {
    if constexpr (std::is_same_v<Type, arrow::UInt64Type> && std::is_same_v<Value, int64_t>) {
      if (typed.Value(i) > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        broken("an integer is above 2^63 - 1");
    }
    return static_cast<Value>(typed.Value(i));
  });
}

template <typename Values>
void append_integers(const arrow::Array& array, Values& values) {
  switch (array.type_id()) {
    case arrow::Type::INT8: return append_numbers<arrow::Int8Type>(array, values);
    case arrow::Type::INT16: return append_numbers<arrow::Int16Type>(array, values);
    case arrow::Type::INT32: return append_numbers<arrow::Int32Type>(array, values);
    case arrow::Type::INT64: return append_numbers<arrow::Int64Type>(array, values);
    case arrow::Type::UINT8: return append_numbers<arrow::UInt8Type>(array, values);
    case arrow::Type::UINT16: return append_numbers<arrow::UInt16Type>(array, values);
    case arrow::Type::UINT32: return append_numbers<arrow::UInt32Type>(array, values);
    case arrow::Type::UINT64: return append_numbers<arrow::UInt64Type>(array, values);
    default: broken("a column of integers holds " + array.type()->ToString());
  }
}

void append_array(const arrow::Array& array, Texts& values) {
  const auto text = [](const auto& typed, int64_t i) { return std::string(typed.GetView(i)); };
  if (array.type_id() == arrow::Type::STRING) return append<arrow::StringArray>(array, values, text);
  if (array.type_id() == arrow::Type::LARGE_STRING) return append<arrow::LargeStringArray>(array, values, text);
  broken("a column of text holds " + array.type()->ToString());
}

void append_array(const arrow::Array& array, Integers& values) { append_integers(array, values); }

void append_array(const arrow::Array& array, Numbers& values) {
  if (array.type_id() == arrow::Type::FLOAT) return append_numbers<arrow::FloatType>(array, values);
  if (array.type_id() == arrow::Type::DOUBLE) return append_numbers<arrow::DoubleType>(array, values);
  append_integers(array, values);
}

nlohmann::json json_of(const arrow::Array& array, int64_t i);

template <typename List>
nlohmann::json json_list(const arrow::Array& array, int64_t i) {
  const auto& list = static_cast<const List&>(array);
  auto out = nlohmann::json::array();
  const int64_t begin = list.value_offset(i), end = begin + list.value_length(i);
  for (int64_t at = begin; at < end; ++at) out.push_back(json_of(*list.values(), at));
  return out;
}

nlohmann::json json_record(const arrow::Array& array, int64_t i) {
  const auto& record = static_cast<const arrow::StructArray&>(array);
  auto out = nlohmann::json::object();
  for (int field = 0; field < record.num_fields(); ++field)
    out[record.struct_type()->field(field)->name()] = json_of(*record.field(field), i);
  return out;
}

nlohmann::json json_of(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::STRING: return static_cast<const arrow::StringArray&>(array).GetView(i);
    case arrow::Type::LARGE_STRING: return static_cast<const arrow::LargeStringArray&>(array).GetView(i);
    case arrow::Type::BOOL: return static_cast<const arrow::BooleanArray&>(array).Value(i);
    case arrow::Type::LIST: return json_list<arrow::ListArray>(array, i);
    case arrow::Type::LARGE_LIST: return json_list<arrow::LargeListArray>(array, i);
    case arrow::Type::FIXED_SIZE_LIST: return json_list<arrow::FixedSizeListArray>(array, i);
    case arrow::Type::STRUCT: return json_record(array, i);
    case arrow::Type::FLOAT: return static_cast<const arrow::FloatArray&>(array).Value(i);
    case arrow::Type::DOUBLE: return static_cast<const arrow::DoubleArray&>(array).Value(i);
    case arrow::Type::INT8: return static_cast<const arrow::Int8Array&>(array).Value(i);
    case arrow::Type::INT16: return static_cast<const arrow::Int16Array&>(array).Value(i);
    case arrow::Type::INT32: return static_cast<const arrow::Int32Array&>(array).Value(i);
    case arrow::Type::INT64: return static_cast<const arrow::Int64Array&>(array).Value(i);
    case arrow::Type::UINT8: return static_cast<const arrow::UInt8Array&>(array).Value(i);
    case arrow::Type::UINT16: return static_cast<const arrow::UInt16Array&>(array).Value(i);
    case arrow::Type::UINT32: return static_cast<const arrow::UInt32Array&>(array).Value(i);
    case arrow::Type::UINT64: return static_cast<const arrow::UInt64Array&>(array).Value(i);
    default: broken("a value holds " + array.type()->ToString());
  }
}

void append_array(const arrow::Array& array, Jsons& values) {
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) values.emplace_back();
    else values.emplace_back(JsonText{json_of(array, i).dump()});
  }
}

void append_array(const arrow::Array& array, Bools& values) {
  append<arrow::BooleanArray>(array, values, [](const auto& typed, int64_t i) { return typed.Value(i); });
}

// One chunk; a dictionary is looked up.
template <typename Values>
void append_chunk(const arrow::Array& chunk, Values& values) {
  check(chunk.ValidateFull(), "its data is broken");
  if (chunk.type_id() != arrow::Type::DICTIONARY) return append_array(chunk, values);
  const auto& coded = static_cast<const arrow::DictionaryArray&>(chunk);
  Values entries;
  append_array(*coded.dictionary(), entries);
  for (int64_t i = 0; i < coded.length(); ++i) {
    if (coded.IsNull(i)) values.emplace_back();
    else values.push_back(entries.at(static_cast<size_t>(coded.GetValueIndex(i))));
  }
}

template <typename Values>
Values values_of(const arrow::ChunkedArray* column, int64_t rows) {
  Values values;
  if (column == nullptr) {
    values.resize(static_cast<size_t>(rows));
    return values;
  }
  for (const auto& chunk : column->chunks()) append_chunk(*chunk, values);
  return values;
}

class Source : public ParquetSource {
 public:
  Source(const std::shared_ptr<arrow::io::RandomAccessFile>& file, const std::vector<WantedColumn>& wanted)
      : wanted_(wanted) {
    parquet::ReaderProperties properties(&pool_);
    properties.enable_buffered_stream();  // a column's pages as they are needed, not a whole row group's
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(file, properties), "not a whole Parquet file (is it cut off?)");
    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);  // that would start Arrow's I/O threads
    arrow_properties.set_batch_size(kBatchRows);
    builder.memory_pool(&pool_)->properties(arrow_properties);
    check(builder.Build(&reader_), "its schema cannot be read");
    std::shared_ptr<arrow::Schema> schema;
    check(reader_->GetSchema(&schema), "its schema cannot be read");
    find_columns(*schema);
  }

  size_t groups() const override { return static_cast<size_t>(reader_->num_row_groups()); }

  ParquetFailure read(size_t group, Table& table) override {
    return guarded([&] {
      if (group >= groups()) broken("it has no row group " + std::to_string(group));
      const auto data = value_of(reader_->ReadRowGroup(static_cast<int>(group), leaves_), "it cannot be read");
      const int64_t rows = reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group))->num_rows();
      // With no column at all there is nothing that bounds what a file says of its rows.
      if (data->num_columns() > 0 && rows != data->num_rows())
        broken("a row group has another number of rows than it says");
      take(*data, table);
    });
  }

  ParquetFailure next(size_t rows, Table& table) override {
    return guarded([&] {
      if (!batches_) {
        std::vector<int> all(groups());
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
        batches_ = value_of(reader_->GetRecordBatchReader(all, leaves_), "it cannot be read");
      }
      while (rest_ == nullptr || rest_->num_rows() == 0) {
        check(batches_->ReadNext(&rest_), "it cannot be read");
        if (rest_ == nullptr) break;
      }
      if (rest_ == nullptr || leaves_.empty()) {
        for (const WantedColumn& wanted : wanted_)
          table.columns.push_back({wanted.name, read_column(nullptr, wanted.kind, 0)});
        return;
      }
      const auto some = rest_->Slice(0, static_cast<int64_t>(rows));
      rest_ = rest_->Slice(some->num_rows());
      take(*value_of(arrow::Table::FromRecordBatches({some}), "it cannot be read"), table);
    });
  }

 private:
  void take(const arrow::Table& data, Table& table) const {
    const int64_t there = data.num_columns() > 0 ? data.num_rows() : 0;
    for (const WantedColumn& wanted : wanted_) {
      const auto column = data.GetColumnByName(wanted.name);
      table.columns.push_back({wanted.name, read_column(column.get(), wanted.kind, there)});
      if (table.columns.back().rows() != static_cast<size_t>(there)) broken("its columns differ in length");
    }
  }

  static decltype(Column::values) read_column(const arrow::ChunkedArray* column, ColumnKind kind, int64_t rows) {
    switch (kind) {
      case ColumnKind::kText: return values_of<Texts>(column, rows);
      case ColumnKind::kInteger: return values_of<Integers>(column, rows);
      case ColumnKind::kNumber: return values_of<Numbers>(column, rows);
      case ColumnKind::kBool: return values_of<Bools>(column, rows);
      case ColumnKind::kJson: return values_of<Jsons>(column, rows);
      case ColumnKind::kChat:
      case ColumnKind::kIntegerList:
      case ColumnKind::kFloatList: break;
    }
    broken("conversations and lists are read as values");
  }

  // The leaves of the wanted columns, so that no other is decoded. A column of another form is named with its type.
  void find_columns(const arrow::Schema& schema) {
    const auto failure = [](const std::string& text) { throw ParquetFailure{ParquetFailure::kColumns, text}; };
    std::string names;
    for (const auto& field : schema.fields()) names += (names.empty() ? "" : ", ") + field->name();
    for (const WantedColumn& wanted : wanted_) {
      const auto found = schema.GetAllFieldIndices(wanted.name);
      if (found.size() > 1) failure("column '" + wanted.name + "' is there " + std::to_string(found.size()) + " times");
      if (found.empty()) {
        if (!wanted.required) continue;
        failure("column '" + wanted.name + "' is missing; its columns are: " + (names.empty() ? "none" : names));
      }
      const auto& type = *schema.field(found[0])->type();
      if (!fits(type, wanted.kind)) {
        failure("column '" + wanted.name + "' holds " + type.ToString() + ", not " +
                std::string(names_of(wanted.kind)[static_cast<size_t>(wanted.kind)]));
      }
      add_leaves(reader_->manifest().schema_fields.at(static_cast<size_t>(found[0])));
    }
  }

  void add_leaves(const parquet::arrow::SchemaField& field) {
    if (field.is_leaf()) leaves_.push_back(field.column_index);
    for (const auto& child : field.children) add_leaves(child);
  }

  arrow::CappedMemoryPool pool_{arrow::default_memory_pool(), kMostBytes};
  const std::vector<WantedColumn> wanted_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;  // of next()
  std::shared_ptr<arrow::RecordBatch> rest_;           // of the batch that was read last
  std::vector<int> leaves_;
};

template <typename Builder, typename Values>
std::shared_ptr<arrow::Array> built(const Values& values) {
  Builder builder;
  for (const auto& value : values) check(value ? builder.Append(*value) : builder.AppendNull(), "out of memory");
  return value_of(builder.Finish(), "out of memory");
}

std::shared_ptr<arrow::Array> array_of(const Texts& values) { return built<arrow::StringBuilder>(values); }
std::shared_ptr<arrow::Array> array_of(const Integers& values) { return built<arrow::Int64Builder>(values); }
std::shared_ptr<arrow::Array> array_of(const Numbers& values) { return built<arrow::DoubleBuilder>(values); }
std::shared_ptr<arrow::Array> array_of(const Bools& values) { return built<arrow::BooleanBuilder>(values); }

std::shared_ptr<arrow::Array> array_of(const Jsons&) {
  throw ParquetFailure{ParquetFailure::kColumns, "values of any type are read only"};
}

std::shared_ptr<arrow::Array> array_of(const Chats& values) {
  const auto role = std::make_shared<arrow::StringBuilder>(), content = std::make_shared<arrow::StringBuilder>(),
             reasoning = std::make_shared<arrow::StringBuilder>();
  const auto weight = std::make_shared<arrow::Int64Builder>();
  const auto type = arrow::struct_({arrow::field("role", arrow::utf8()), arrow::field("content", arrow::utf8()),
                                    arrow::field("reasoning_content", arrow::utf8()),
                                    arrow::field("weight", arrow::int64())});
  const auto message = std::make_shared<arrow::StructBuilder>(
      type, arrow::default_memory_pool(),
      std::vector<std::shared_ptr<arrow::ArrayBuilder>>{role, content, reasoning, weight});
  arrow::ListBuilder list(arrow::default_memory_pool(), message);
  for (const auto& chat : values) {
    check(chat ? list.Append() : list.AppendNull(), "out of memory");
    if (!chat) continue;
    for (const ChatCell& cell : *chat) {
      check(message->Append(), "out of memory");
      check(role->Append(cell.role), "out of memory");
      check(content->Append(cell.content), "out of memory");
      check(cell.reasoning_content ? reasoning->Append(*cell.reasoning_content) : reasoning->AppendNull(),
            "out of memory");
      check(weight->Append(cell.weight), "out of memory");
    }
  }
  return value_of(list.Finish(), "out of memory");
}

template <typename Builder, typename Lists>
std::shared_ptr<arrow::Array> lists_of(const Lists& lists) {
  const auto values = std::make_shared<Builder>();
  arrow::ListBuilder list(arrow::default_memory_pool(), values);
  for (const auto& each : lists) {
    check(list.Append(), "out of memory");
    check(values->AppendValues(each), "out of memory");
  }
  return value_of(list.Finish(), "out of memory");
}

std::shared_ptr<arrow::Array> array_of(const IntegerLists& lists) { return lists_of<arrow::Int64Builder>(lists); }
std::shared_ptr<arrow::Array> array_of(const FloatLists& lists) { return lists_of<arrow::FloatBuilder>(lists); }

std::shared_ptr<arrow::Table> table_of(const Table& table) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const Column& column : table.columns) {
    arrays.push_back(std::visit([](const auto& values) { return array_of(values); }, column.values));
    fields.push_back(arrow::field(column.name, arrays.back()->type()));
    const auto status = arrays.back()->ValidateFull();
    if (!status.ok())
      throw ParquetFailure{ParquetFailure::kColumns, "column '" + column.name + "': " + status.ToString()};
  }
  return arrow::Table::Make(arrow::schema(fields), arrays, static_cast<int64_t>(table.rows()));
}

std::shared_ptr<parquet::WriterProperties> writer_properties() {
  return parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
}

class Sink : public ParquetSink {
 public:
  Sink(const std::string& path, const Table& schema)
      : file_(value_of(arrow::io::FileOutputStream::Open(path), "it cannot be written")),
        writer_(value_of(parquet::arrow::FileWriter::Open(*table_of(schema)->schema(), arrow::default_memory_pool(),
                                                          file_, writer_properties()),
                         "it cannot be written")) {}

  ParquetFailure write(const Table& table) override {
    return guarded([&] {
      const auto data = table_of(table);
      check(writer_->WriteTable(*data, std::max<int64_t>(1, data->num_rows())), "it cannot be written");
    });
  }

  ParquetFailure close() override {
    return guarded([&] {
      check(writer_->Close(), "it cannot be written");
      check(file_->Close(), "it cannot be written");
    });
  }

 private:
  std::shared_ptr<arrow::io::FileOutputStream> file_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

ParquetFailure create(const std::string& path, const Table& schema, std::unique_ptr<ParquetSink>& sink) {
  return guarded([&] { sink = std::make_unique<Sink>(path, schema); });
}

ParquetFailure open(std::string_view bytes, const std::vector<WantedColumn>& wanted,
                    std::unique_ptr<ParquetSource>& source) {
  return guarded([&] {
    const auto buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                        static_cast<int64_t>(bytes.size()));
    source = std::make_unique<Source>(std::make_shared<arrow::io::BufferReader>(buffer), wanted);
  });
}

ParquetFailure open_file(const std::string& path, const std::vector<WantedColumn>& wanted,
                         std::unique_ptr<ParquetSource>& source) {
  return guarded([&] {
    source = std::make_unique<Source>(value_of(arrow::io::ReadableFile::Open(path), "it cannot be opened"), wanted);
  });
}

ParquetFailure write(const Table& table, std::string& bytes) {
  return guarded([&] {
    const auto data = table_of(table);
    const auto sink = value_of(arrow::io::BufferOutputStream::Create(), "out of memory");
    check(parquet::arrow::WriteTable(*data, arrow::default_memory_pool(), sink, parquet::DEFAULT_MAX_ROW_GROUP_LENGTH,
                                     writer_properties()),
          "it cannot be written");
    bytes = value_of(sink->Finish(), "it cannot be written")->ToString();
  });
}

ParquetFailure write_arrow(const Table& table, std::string& bytes) {
  return guarded([&] {
    const auto data = table_of(table);
    const auto sink = value_of(arrow::io::BufferOutputStream::Create(), "out of memory");
    const auto writer = value_of(arrow::ipc::MakeStreamWriter(sink, data->schema()), "it cannot be written");
    check(writer->WriteTable(*data), "it cannot be written");
    check(writer->Close(), "it cannot be written");
    bytes = value_of(sink->Finish(), "it cannot be written")->ToString();
  });
}

}  // namespace
}  // namespace tritonforge::dataset

extern "C" __attribute__((visibility("default"))) const tritonforge::dataset::ParquetApi* tritonforge_parquet_api() {
  static constexpr tritonforge::dataset::ParquetApi table{.open = tritonforge::dataset::open,
                                                          .open_file = tritonforge::dataset::open_file,
                                                          .create = tritonforge::dataset::create,
                                                          .write = tritonforge::dataset::write,
                                                          .write_arrow = tritonforge::dataset::write_arrow};
  return &table;
}
