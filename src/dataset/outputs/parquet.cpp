// The conversations as Parquet: `messages` is a list of {role, content, reasoning_content, weight}.
#include "dataset/parquet.h"
#include "dataset/outputs/output.h"

namespace tritonforge::dataset {
namespace {

constexpr size_t kRowsOfAGroup = 512;
constexpr size_t kBytesOfAGroup = size_t{32} << 20;

std::vector<ChatCell> cells_of(const Row& row) {
  std::vector<ChatCell> cells;
  for (const auto& [message, learned] : row.messages) {
    ChatCell& cell = cells.emplace_back(ChatCell{message.role, message.content, std::nullopt, learned ? 1 : 0});
    if (!message.reasoning_content.empty()) cell.reasoning_content = message.reasoning_content;
  }
  return cells;
}

class ParquetFile {
 public:
  explicit ParquetFile(const fs::path& stem) : name_(with_ending(stem, ".parquet")), writer_(name_) { clear(); }

  void write(const Row& row) {
    const auto add = [&]<typename List>(size_t column, typename List::value_type value) {
      std::get<List>(group_.columns[column].values).push_back(std::move(value));
    };
    add.template operator()<Texts>(0, row.uuid);
    add.template operator()<Chats>(1, cells_of(row));
    add.template operator()<Texts>(2, row.source);
    add.template operator()<Texts>(3, row.licence);
    add.template operator()<Texts>(4, fmt::format("{}", fmt::join(row.families, "+")));
    add.template operator()<Texts>(5, row.problem);
    add.template operator()<Texts>(6, row.solution);
    add.template operator()<Bools>(7, row.verdict ? std::optional(row.verdict->correct) : std::nullopt);
    add.template operator()<Integers>(8, row.stars);
    bytes_ += row.size();
    if (group_.rows() >= kRowsOfAGroup || bytes_ >= kBytesOfAGroup) flush();
  }

  std::vector<fs::path> close() {
    if (group_.rows() > 0) flush();
    writer_.close();
    return {name_};
  }

 private:
  void flush() {
    writer_.write(group_);
    clear();
  }
  void clear() {
    group_ = {{{"uuid", Texts()},
               {"messages", Chats()},
               {"source", Texts()},
               {"licence", Texts()},
               {"families", Texts()},
               {"problem", Texts()},
               {"solution", Texts()},
               {"correct", Bools()},
               {"stars", Integers()}}};
    bytes_ = 0;
  }

  fs::path name_;
  ParquetWriter writer_;
  Table group_;
  size_t bytes_ = 0;
};

class Parquet : public Output {
 public:
  explicit Parquet(const fs::path& folder) : files_(folder) {}
  void write(const Row& row) override {
    if (row.learns()) files_.of(row.split).write(row);
  }
  std::vector<fs::path> close() override { return files_.close(); }

 private:
  BySplit<ParquetFile> files_;
};

}  // namespace

std::unique_ptr<Output> make_parquet(const fs::path& folder) { return std::make_unique<Parquet>(folder); }

}  // namespace tritonforge::dataset
