#include "dataset/parquet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "dataset/problem.h"
#include "dataset/source_families.h"

namespace tritonforge::dataset {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSource =
    "class Model:\n  pass\ndef get_inputs():\n  return []\ndef get_init_inputs():\n  return []\n";

std::string error_of(const std::function<void()>& action, ErrorKind kind) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Table sample_table() {
  return {{{"text", Texts{"a", std::nullopt, "ü"}},
           {"count", Integers{1, int64_t{1} << 40, std::nullopt}},
           {"value", Numbers{0.5, std::nullopt, -1e300}},
           {"flag", Bools{true, std::nullopt, false}}}};
}

const std::vector<WantedColumn> kSampleColumns = {{"text", ColumnKind::kText},
                                                  {"count", ColumnKind::kInteger},
                                                  {"value", ColumnKind::kNumber},
                                                  {"flag", ColumnKind::kBool}};

TEST(Parquet, WhatIsWrittenIsRead) {
  const std::string bytes = parquet_bytes(sample_table(), "test");
  EXPECT_EQ(ParquetReader(bytes, "test", kSampleColumns).read_all(), sample_table());
  EXPECT_EQ(parquet_bytes(sample_table(), "test"), bytes);
}

TEST(Parquet, ColumnsAreFoundByNameAndIntegersReadAsNumbers) {
  const std::string bytes = parquet_bytes(sample_table(), "test");
  const Table read = ParquetReader(bytes, "test",
                                   {{"count", ColumnKind::kNumber}, {"more", ColumnKind::kText, /*required=*/false}})
                         .read_all();
  ASSERT_EQ(read.columns.size(), 2);
  EXPECT_EQ(std::get<Numbers>(read.columns[0].values)[1], static_cast<double>(int64_t{1} << 40));
  EXPECT_EQ(std::get<Texts>(read.columns[1].values), Texts(3));
}

TEST(Parquet, AColumnThatIsMissingOrOfAnotherTypeIsNamedWithWhatIsThere) {
  const std::string bytes = parquet_bytes(sample_table(), "test");
  const auto open = [&](const WantedColumn& column) { ParquetReader(bytes, "d.parquet", {column}); };
  EXPECT_THAT(error_of([&] { open({"code", ColumnKind::kText}); }, ErrorKind::kUsage),
              AllOf(HasSubstr("d.parquet: column 'code' is missing"), HasSubstr("text, count, value, flag")));
  EXPECT_THAT(error_of([&] { open({"text", ColumnKind::kInteger}); }, ErrorKind::kUsage),
              HasSubstr("column 'text' holds string, not integers"));
  EXPECT_THAT(error_of([&] { open({"value", ColumnKind::kInteger}); }, ErrorKind::kUsage),
              HasSubstr("column 'value' holds double, not integers"));
}

TEST(Parquet, AFileThatIsCutOffAnywhereIsRefusedInOneLine) {
  const std::string bytes = parquet_bytes(sample_table(), "test");
  for (size_t size = 0; size < bytes.size(); size += 7) {
    const std::string part = bytes.substr(0, size);
    const std::string said = error_of([&] { ParquetReader(part, "cut.parquet", kSampleColumns).read_all(); },
                                      ErrorKind::kCorrupt);
    EXPECT_THAT(said, HasSubstr("cut.parquet: ")) << size;
  }
}

TEST(Parquet, TextThatIsNotUtf8IsNotWritten) {
  EXPECT_THAT(error_of([] { parquet_bytes({{{"t", Texts{"\xff\xfe"}}}}, "x.parquet"); }, ErrorKind::kUsage),
              HasSubstr("x.parquet: column 't'"));
}

Table problem_table(int64_t level, std::vector<std::string> names) {
  Texts codes, texts;
  Integers levels, numbers;
  for (size_t i = 0; i < names.size(); ++i) {
    codes.emplace_back(kSource);
    levels.emplace_back(level);
    numbers.emplace_back(static_cast<int64_t>(i) + 1);
    texts.emplace_back(std::to_string(i + 1) + "_" + names[i]);
  }
  return {{{"code", codes}, {"level", levels}, {"name", texts}, {"problem_id", numbers}}};
}

// As Hugging Face has KernelBench: data/level_N-00000-of-00001.parquet.
TEST(ProblemParquet, AFolderAsClonedFromHuggingFaceIsRead) {
  const TemporaryFolder folder("problems");
  fs::create_directories(folder.path() / "data");
  write_parquet(folder.path() / "data/level_1-00000-of-00001.parquet", problem_table(1, {"relu", "add"}));
  write_parquet(folder.path() / "data/level_2-00000-of-00001.parquet", problem_table(2, {"conv"}));
  std::vector<std::string> ids;
  for (const Problem& problem : read_problems(folder.path())) {
    ids.push_back(problem.id);
    EXPECT_EQ(problem.source, kSource);
  }
  EXPECT_THAT(ids, ElementsAre("level1_1_relu", "level1_2_add", "level2_1_conv"));
  EXPECT_EQ(read_problems(folder.path() / "data/level_2-00000-of-00001.parquet").size(), 1);
}

TEST(Parquet, NextGivesTheRowsInOrderWhateverTheGroups) {
  const TemporaryFolder folder("parquet");
  const fs::path file = folder.path() / "d.parquet";
  ParquetWriter writer(file);
  for (int64_t first : {0, 3, 1000}) {
    Table group{{{"n", Integers()}}};
    for (int64_t i = 0; i < (first == 3 ? 997 : first == 0 ? 3 : 200); ++i)
      std::get<Integers>(group.columns[0].values).emplace_back(first + i);
    writer.write(group);
  }
  EXPECT_FALSE(fs::exists(file));
  writer.close();
  ParquetReader reader(file, {{"n", ColumnKind::kInteger}});
  EXPECT_EQ(reader.groups(), 3u);
  int64_t expected = 0;
  for (Table some = reader.next(64); some.rows() > 0; some = reader.next(64)) {
    EXPECT_LE(some.rows(), 64u);
    for (const auto& value : std::get<Integers>(some.columns[0].values)) EXPECT_EQ(value, expected++);
  }
  EXPECT_EQ(expected, 1200);
}

TEST(Parquet, AWriterThatIsNotClosedLeavesNoFile) {
  const TemporaryFolder folder("parquet");
  { ParquetWriter(folder.path() / "d.parquet").write(sample_table()); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Parquet, ConversationsAreWrittenAndReadAsValues) {
  const Table table{
      {{"messages",
        Chats{std::vector<ChatCell>{{"user", "q", std::nullopt, 0}, {"assistant", "ä", "t", 1}}, std::nullopt}}}};
  const Table read = ParquetReader(parquet_bytes(table, "test"), "test", {{"messages", ColumnKind::kJson}}).read_all();
  const auto& values = std::get<Jsons>(read.columns[0].values);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(parse_json(values[0]->text, "test"),
            (Json{{{"role", "user"}, {"content", "q"}, {"reasoning_content", nullptr}, {"weight", 0}},
                  {{"role", "assistant"}, {"content", "ä"}, {"reasoning_content", "t"}, {"weight", 1}}}));
  EXPECT_FALSE(values[1]);
}

TEST(ProblemParquet, ARowThatIsNoProblemIsNamed) {
  const TemporaryFolder folder("problems");
  const fs::path file = folder.path() / "p.parquet";
  Table table = problem_table(1, {"relu", "add"});
  std::get<Texts>(table.columns[0].values)[1] = std::nullopt;
  write_parquet(file, table);
  EXPECT_THAT(error_of([&] { read_problems(file); }, ErrorKind::kUsage), HasSubstr("p.parquet row 2: 'code' is null"));
  write_parquet(file, problem_table(-1, {"relu"}));
  EXPECT_THAT(error_of([&] { read_problems(file); }, ErrorKind::kUsage), HasSubstr("row 1: field 'level'"));
  write_parquet(file, problem_table(1, {}));
  EXPECT_THAT(error_of([&] { read_problems(file); }, ErrorKind::kUsage), HasSubstr("no problems in it"));
}

TEST(SourceFamilies, AreThoseThatTheCodeCalls) {
  EXPECT_THAT(families_of_calls("self.conv = nn.Conv2d(3, 8, 3)\nx = torch.relu(x)"),
              ElementsAre("convolution", "activation"));
  EXPECT_THAT(families_of_calls("\"\"\"\nA softmax of nn.Conv2d\n\"\"\"\n# torch.matmul\nx = torch.cumsum(x, 1)"),
              ElementsAre("scan"));
  EXPECT_THAT(families_of_calls("x = x + 1"), ElementsAre("other"));
}

}  // namespace
}  // namespace tritonforge::dataset
