#include "dataset/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/json.h"

namespace tritonforge::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSource =
    "# families: relu, mul\nclass Model:\n  pass\ndef get_inputs():\n  return []\ndef get_init_inputs():\n  return "
    "[]\n";

std::string error_of(const std::function<void()>& action, ErrorKind kind = ErrorKind::kUsage) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(Problem, ASourceThatIsNoUtf8IsRefusedByItsFile) {
  TemporaryFolder folder("problems");
  write(folder.path() / "level1/19_relu.py", "# caf\xe9\n" + kSource);
  EXPECT_THAT(error_of([&] { read_problems(folder.path()); }), HasSubstr("19_relu.py: not a problem: it is no UTF-8"));
}

TEST(Problem, AByteOrderMarkIsNoPartOfASource) {
  TemporaryFolder folder("problems");
  write(folder.path() / "1_relu.py", "\xEF\xBB\xBF" + kSource);
  const auto problems = read_problems(folder.path());
  EXPECT_EQ(problems.at(0).source, kSource);
  EXPECT_THAT(problems.at(0).families, ElementsAre("relu", "mul"));
}

TEST(Problem, FolderOfLevels) {
  TemporaryFolder folder("problems");
  write(folder.path() / "level1/19_relu.py", kSource);
  write(folder.path() / "level1/2_add.py", kSource);
  write(folder.path() / "level2/1_mul_relu.py", kSource);
  write(folder.path() / "quickstart/other.py", "not a problem, and not in a level");
  const auto problems = read_problems(folder.path());
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].id, "level1_2_add");
  EXPECT_EQ(problems[1].id, "level1_19_relu");
  EXPECT_EQ(problems[1].name, "relu");
  EXPECT_THAT(problems[1].families, ElementsAre("relu", "mul"));
  EXPECT_EQ(problems[2].level, 2);
  EXPECT_EQ(read_problems(folder.path() / "level2").at(0).id, "level2_1_mul_relu");
  EXPECT_EQ(read_problems(folder.path() / "level1/19_relu.py").at(0).id, "level1_19_relu");
}

TEST(Problem, HiddenFilesAndOddEndingsAreSkippedAndNamed) {
  TemporaryFolder folder("problems");
  write(folder.path() / "level1/2_add.py", kSource);
  for (const char* name : {"level1/.3_mul.py", "level1/._2_add.py", "level1/4_sub.PY", "X.Jsonl"})
    write(folder.path() / name, "no problem");
  write(folder.path() / "level1/notes.txt", "nobody takes it for a problem");
  EXPECT_EQ(read_problems(folder.path()).size(), 1u);
  EXPECT_THAT(skipped_files(folder.path()),
              ElementsAre("X.Jsonl", "level1/.3_mul.py", "level1/._2_add.py", "level1/4_sub.PY"));
  EXPECT_THAT(skipped_files(folder.path() / "level1/2_add.py"), ElementsAre());
}

// data/ is looked into where it is read.
TEST(Problem, WhatIsSkippedInDataIsNamedToo) {
  TemporaryFolder folder("problems");
  write(folder.path() / "README.md", "as cloned from Hugging Face");
  write(folder.path() / "data/2_add.py", kSource);
  write(folder.path() / "data/4_sub.PY", "no problem");
  EXPECT_EQ(read_problems(folder.path()).size(), 1u);
  EXPECT_THAT(skipped_files(folder.path()), ElementsAre("data/4_sub.PY"));
  write(folder.path() / "1_mul.py", kSource);
  EXPECT_THAT(skipped_files(folder.path()), ElementsAre());
}

TEST(Problem, BothJsonLines) {
  const std::string text = Json{{"level", 2}, {"problem_id", 7}, {"name", "7_Softmax"}, {"code", kSource}}.dump() +
                           "\n\n" +
                           Json{{"prompt", Json::array()},
                                {"label", kSource},
                                {"extra_info", {{"level", 1}, {"problem_id", "19"}, {"problem_name", "19_ReLU"}}},
                                {"instance_id", "kernel_bench_triton_lv1_19"}}
                               .dump();
  const auto problems = parse_problems_jsonl(text, "set.jsonl");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].id, "level2_7_Softmax");
  EXPECT_EQ(problems[0].name, "Softmax");
  EXPECT_EQ(problems[1].id, "kernel_bench_triton_lv1_19");
  EXPECT_EQ(problems[1].problem_id, 19);
  const auto again = parse_problems_jsonl(problem_line(problems[0]), "again");
  EXPECT_EQ(again[0].id, problems[0].id);
  EXPECT_EQ(again[0].families, problems[0].families);
  EXPECT_EQ(again[0].source, kSource);
}

TEST(Problem, ErrorsNameFileAndLine) {
  const std::string good = Json{{"level", 1}, {"problem_id", 1}, {"name", "a"}, {"code", kSource}}.dump();
  EXPECT_THAT(error_of([&] { parse_problems_jsonl(good + "\n{\"level\": 1}\n", "s.jsonl"); }),
              HasSubstr("s.jsonl:2: none of the fields"));
  EXPECT_THAT(error_of([&] { parse_problems_jsonl(good + "\n{nonsense", "s.jsonl"); }),
              HasSubstr("s.jsonl:2: not valid JSON"));
  EXPECT_THAT(error_of([&] { parse_problems_jsonl(good + "\n" + good, "s.jsonl"); }),
              HasSubstr("level1_1_a' is there twice"));
  const std::string no_model = Json{{"level", 1}, {"problem_id", 1}, {"code", "print(1)"}}.dump();
  EXPECT_THAT(error_of([&] { parse_problems_jsonl(no_model, "s.jsonl"); }),
              HasSubstr("s.jsonl:1: not a problem: it has no 'class Model'"));
  EXPECT_THAT(error_of([] { read_problems("/no/such/place"); }, ErrorKind::kNotFound), HasSubstr("/no/such/place"));
}

TEST(Problem, SelectionNamesTheNearest) {
  const auto make = [](int level, int number, const std::string& name) {
    return Problem{fmt::format("level{}_{}_{}", level, number, name), level, number, name, {}, ""};
  };
  const std::vector<Problem> all{make(1, 19, "relu"), make(1, 23, "softmax"), make(2, 19, "mul_relu")};
  EXPECT_EQ(select_problems(all, {}, {}).size(), 3u);
  EXPECT_EQ(select_problems(all, {}, {"19"}).size(), 2u);
  EXPECT_EQ(select_problems(all, {1}, {"19"}).at(0).id, "level1_19_relu");
  EXPECT_EQ(select_problems(all, {}, {"softmax"}).at(0).problem_id, 23);
  EXPECT_THAT(error_of([&] { select_problems(all, {}, {"level1_23_softmx"}); }),
              HasSubstr("did you mean 'level1_23_softmax'"));
  EXPECT_THAT(error_of([&] { select_problems(all, {}, {"24"}); }), HasSubstr("did you mean '23'"));
  EXPECT_THAT(error_of([&] { select_problems(all, {3}, {}); }), HasSubstr("there are levels 1, 2"));
}

}  // namespace
}  // namespace tritonforge::dataset
