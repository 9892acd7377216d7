#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "dataset/pair.h"
#include "dataset/sources/chat.h"
#include "dataset/sources/kernelbook.h"
#include "dataset/sources/source.h"
#include "dataset/sources/trajectories.h"

namespace tritonforge::dataset {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Row chat_of(const std::string& line) { return chat_row({}, parse_line(line, "d.jsonl:1")); }
std::string outcome_of(const std::string& messages) {
  const Row row = chat_of("{\"messages\": " + messages + "}");
  return row.dropped ? row.dropped->reason : "kept";
}

const std::string kAsked = R"({"role": "user", "content": "q"})", kAnswer = R"({"role": "assistant", "content": "a"})";

TEST(ChatRow, EachBadConversationHasAStatedOutcome) {
  const auto list = [](const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ", ")); };
  EXPECT_EQ(outcome_of(list({kAsked, kAnswer})), "kept");
  EXPECT_EQ(outcome_of("[]"), "an empty conversation");
  EXPECT_EQ(outcome_of("7"), "'messages' is no list of messages");
  EXPECT_EQ(outcome_of(list({"3", kAnswer})), "a message is not an object");
  EXPECT_EQ(outcome_of(list({R"({"role": "gpt", "content": "x"})", kAnswer})), "an unknown role");
  EXPECT_EQ(outcome_of(list({R"({"role": "user", "content": 4})", kAnswer})), "a message's content is no text");
  EXPECT_EQ(outcome_of(list({kAsked})), "no answer");
  EXPECT_EQ(outcome_of(list({kAnswer, kAsked, kAnswer})), "an answer comes first");
  EXPECT_EQ(outcome_of(list({kAsked, kAnswer, kAnswer})), "two answers in a row");
  EXPECT_EQ(outcome_of(list({kAsked, R"({"role": "assistant", "content": "a", "weight": 0})"})),
            "no answer is learned");
  for (const std::string content : {R"("")", "null", "[]"}) {
    const std::string empty = R"({"role": "assistant", "content": )" + content;
    EXPECT_EQ(outcome_of(list({kAsked, empty + "}"})), "an empty answer") << content;
    EXPECT_EQ(outcome_of(list({kAsked, empty + R"(, "weight": 0})", kAsked, kAnswer})), "kept") << content;
  }
  EXPECT_EQ(outcome_of(list({kAsked, R"({"role": "system", "content": "s"})", kAnswer})), "kept");
}

TEST(ChatRow, CallsAndToolsAreNoEmptyAnswers) {
  const std::string call = R"("tool_calls": [{"function": {"name": "run", "arguments": {}}}])";
  EXPECT_EQ(outcome_of("[" + kAsked + R"(, {"role": "assistant", "content": null, )" + call + "}]"), "it uses tools");
  EXPECT_EQ(outcome_of("[" + kAsked + R"(, {"role": "assistant", "content": "a", "tool_calls": []}])"), "kept");
  const std::string older = R"("function_call": {"name": "run", "arguments": "{}"})";
  EXPECT_EQ(outcome_of("[" + kAsked + R"(, {"role": "assistant", "content": null, )" + older + "}]"), "it uses tools");
  EXPECT_EQ(outcome_of("[" + kAsked + R"(, {"role": "function", "name": "run", "content": "1"}, )" + kAnswer + "]"),
            "it uses tools");
  const auto with_tools = [](const std::string& tools, const std::string& key = "tools") {
    return chat_of("{\"messages\": [" + kAsked + "," + kAnswer + "], \"" + key + "\": " + tools + "}").dropped;
  };
  EXPECT_EQ(with_tools(R"([{"type": "function"}])")->reason, "it uses tools");
  EXPECT_EQ(with_tools(R"([{"name": "run"}])", "functions")->reason, "it uses tools");
  EXPECT_FALSE(with_tools("[]"));
  EXPECT_FALSE(with_tools("null"));
}

TEST(ChatRow, MessagesBehindTheLastAnswerAreLeftOutAndSaid) {
  const Row row = chat_of("{\"messages\": [" + kAsked + "," + kAnswer + "," + kAsked + "]}");
  EXPECT_FALSE(row.dropped);
  EXPECT_EQ(row.messages.size(), 2u);
  EXPECT_THAT(row.repairs, ElementsAre("trailing_messages"));
}

TEST(ParseLine, ALineThatIsNoObjectSaysWhy) {
  EXPECT_EQ(parse_line("{", "x").problem, "not JSON");
  EXPECT_EQ(parse_line("[1]", "x").problem, "not an object");
  EXPECT_EQ(parse_line("{\"a\": \"\xC3\"}", "x").problem, "not UTF-8");
  EXPECT_EQ(parse_line("{}", "x").problem, "");
}

TEST(JsonLines, AByteOrderMarkBlankLinesAndCarriageReturnsArePassedOver) {
  TemporaryFolder folder("tf-lines");
  write_file_atomic(folder.path() / "a.jsonl", "\xEF\xBB\xBF{\"a\": 1}\r\n\r\n\n{\"a\": 2}");
  JsonLines lines({folder.path() / "a.jsonl"});
  EXPECT_EQ(lines.next()->value["a"], 1);
  const auto last = lines.next();
  EXPECT_EQ(last->value["a"], 2);
  EXPECT_THAT(last->place, HasSubstr("a.jsonl:4"));
  EXPECT_FALSE(lines.next());
}

Row kernelbook_row(const std::string& init, const std::string& constructor = "self, dim, scale=1.0") {
  Row row;
  row.entry_point = "Foo";
  row.problem = "import torch\nclass Foo(torch.nn.Module):\n    def __init__(" + constructor +
                "):\n        super(Foo, self).__init__()\n\ndef get_inputs():\n    return [torch.rand([4, 4])]\n\n\n"
                "def get_init_inputs():\n    return " +
                init + "\n";
  row.solution = "class FooNew(torch.nn.Module):\n    pass\n";
  take_kernelbook_form(row);
  return row;
}

TEST(KernelBookForm, TheClassIsModelAndTheConstructorIsCalledInOrder) {
  const auto returned = [](const Row& row) {
    EXPECT_FALSE(row.dropped) << row.dropped->reason;
    const std::string text = row.problem.substr(row.problem.find("get_init_inputs"));
    return text.substr(text.find("return") + 7);
  };
  EXPECT_EQ(returned(kernelbook_row("[[], {}]")), "[]\n");
  EXPECT_EQ(returned(kernelbook_row("[[4], {}]")), "[4]\n");
  EXPECT_EQ(returned(kernelbook_row("[[], {'dim': f(1, [2]), 'scale': 3.5}]")), "[f(1, [2]), 3.5]\n");
  EXPECT_EQ(returned(kernelbook_row("[[4], {'scale': 3}]")), "[4, 3]\n");
  EXPECT_EQ(returned(kernelbook_row("[4]")), "[4]\n");
  const Row row = kernelbook_row("[[], {}]");
  EXPECT_THAT(row.problem, AllOf(HasSubstr("class Model(torch"), HasSubstr("super(Model, self)")));
  EXPECT_THAT(row.solution, HasSubstr("class ModelNew("));
}

TEST(KernelBookForm, ArgumentsByNameAloneAndSkippedDefaultsAreGivenInOrder) {
  const Row alone = kernelbook_row("[[2], {'scale': 3}]", "self, dim, *, bias: Tuple[int, str] = (1, 'a'), scale=1.0");
  EXPECT_FALSE(alone.dropped);
  EXPECT_THAT(alone.problem, AllOf(HasSubstr("(self, dim, bias: Tuple[int, str] = (1, 'a'), scale=1.0)"),
                                   HasSubstr("return [2, (1, 'a'), 3]\n")));
  Row both;
  both.entry_point = "Foo";
  both.problem =
      "class Foo:\n    def __init__(self, *, a):\n        pass\ndef get_init_inputs():\n"
      "    return [[], {'a': 1}]\n";
  both.solution = "class FooNew:\n    def __init__(self, *, a):\n        pass\n";
  take_kernelbook_form(both);
  EXPECT_THAT(both.solution, HasSubstr("def __init__(self, a):"));
  EXPECT_EQ(kernelbook_row("[[], {'b': 1}]", "self, a=2, *, b").dropped->reason,
            "arguments by name alone stand behind defaults");
  EXPECT_EQ(kernelbook_row("[[], {'b': 1}]", "self, *args, b=2").dropped->reason,
            "the constructor takes arguments that it does not name");
  EXPECT_EQ(kernelbook_row("[[], {'b': 1}]", "self, a=2, **options").dropped->reason,
            "the constructor takes arguments that it does not name");
}

TEST(KernelBookForm, TheHelperOfItsMakersIsDefinedWhereItIsImported) {
  const auto row_of = [](const std::string& imported, const std::string& more = "") {
    Row row;
    row.entry_point = "Foo";
    row.problem = "from _paritybench_helpers import " + imported + "\nimport torch\nclass Foo(torch.nn.Module):\n" +
                  "    def __init__(self, config):\n        self.size = config.size\n" + more +
                  "def get_init_inputs():\n    return [[], {'config': _mock_config(size=4)}]\n";
    row.solution = "from _paritybench_helpers import _mock_config\nimport torch\nclass FooNew: pass\n";
    take_kernelbook_form(row);
    return row;
  };
  const Row row = row_of("_mock_config");
  EXPECT_FALSE(row.dropped);
  EXPECT_THAT(row.problem, AllOf(StartsWith("import torch\nclass Model("), HasSubstr("return [Config(size=4)]"),
                                 HasSubstr("class Config(dict):\n    __getattr__ = dict.__getitem__\n\n\ndef get_")));
  EXPECT_EQ(row.solution, "import torch\nclass ModelNew: pass\n");
  EXPECT_THAT(row_of("_mock_config", "Config = 1\n").problem, HasSubstr("class _mock_config(dict):"));
  const Row other = row_of("_mock_config, _mock_layer");
  EXPECT_EQ(other.dropped->reason, "a helper of KernelBook's makers that is not in the row");
  EXPECT_EQ(other.dropped->detail, "_mock_layer");
}

TEST(KernelBookForm, WhatCannotBeSaidInOrderIsDroppedWithItsReason) {
  EXPECT_EQ(kernelbook_row("[[], {'scale': 3}]").dropped->reason,
            "arguments by name are not the constructor's next ones");
  Row taken = kernelbook_row("[[], {}]", "self, Model");
  EXPECT_EQ(taken.dropped->reason, "the name Model is taken");
  Row missing;
  missing.entry_point = "Bar";
  missing.problem = "class Foo: pass";
  take_kernelbook_form(missing);
  EXPECT_EQ(missing.dropped->reason, "the entry point is not in the module");
}

std::string kernelbook_error(const Table& table) {
  TemporaryFolder folder("tf-kernelbook");
  write_parquet(folder.path() / "k.parquet", table);
  KernelBookOptions options;
  options.path = folder.path();
  try {
    make_kernelbook(options)->next();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(KernelBook, AColumnThatIsMissingOrOfAnotherTypeIsNamedWithTheOptionThatMendsIt) {
  const std::string option = "option 'columns'";
  EXPECT_THAT(kernelbook_error({{{"code", Texts{"x"}}, {"triton_code", Texts{"y"}}, {"entry_point", Texts{"F"}}}}),
              AllOf(HasSubstr("column 'python_code' is missing"), HasSubstr("code, triton_code"), HasSubstr(option)));
  EXPECT_THAT(
      kernelbook_error({{{"python_code", Integers{1}}, {"triton_code", Texts{"y"}}, {"entry_point", Texts{"F"}}}}),
      AllOf(HasSubstr("column 'python_code' holds int64, not text"), HasSubstr(option)));
}

TEST(KernelBook, ANullIsDroppedAndTheRowsLicenceKept) {
  TemporaryFolder folder("tf-kernelbook");
  write_parquet(folder.path() / "k.parquet", {{{"python_code", Texts{"a", std::nullopt}},
                                               {"triton_code", Texts{"b", "c"}},
                                               {"entry_point", Texts{"F", "G"}},
                                               {"uuid", Integers{12, 13}},
                                               {"licenses", Texts{"MIT", std::nullopt}},
                                               {"stars", Integers{7, 8}}}});
  KernelBookOptions options;
  options.path = folder.path();
  const auto source = make_kernelbook(options);
  const auto first = source->next(), second = source->next();
  EXPECT_EQ(first->uuid, "12");
  EXPECT_EQ(first->licence, "MIT");
  EXPECT_EQ(first->stars, 7);
  EXPECT_THAT(first->place, HasSubstr("k.parquet row 1"));
  EXPECT_EQ(second->dropped->reason, "'python_code' is null");
  EXPECT_FALSE(source->next());
}

PastTrajectory::PastTurn turn(const std::string& code, bool correct, double speedup = 0) {
  Verdict verdict;
  verdict.correct = correct;
  verdict.speedup = speedup;
  return {"said " + code, code, "fed back " + code, verdict};
}

TEST(Trajectories, TheBestAcceptedTurnAndTheWholeRepair) {
  const PastTrajectory past{
      "p", "problem", {{"user", "q"}}, {turn("a", false), turn("b", false), turn("c", true, 1), turn("d", true, 3)}};
  const auto rows = rows_of(past, {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].solution, "d");
  EXPECT_TRUE(rows[0].attempts.empty());
  EXPECT_EQ(rows[1].answer, "said c");
  ASSERT_EQ(rows[1].attempts.size(), 2u);
  EXPECT_EQ(rows[1].attempts[0].feedback, "fed back a");
  TrajectoryOptions two;
  two.max_turns = 2;
  EXPECT_EQ(rows_of(past, two)[1].attempts.size(), 1u);
  EXPECT_TRUE(rows_of({"p", "", {}, {turn("a", false)}}, {}).empty());
}

TEST(Pairs, RefinementsAreTheAttemptsBeforeTheSolution) {
  TemporaryFolder folder("tf-pairs");
  Pair pair{.id = "a", .families = {"relu"}, .combo = "relu", .split = "train", .problem = "p", .solution = "s"};
  pair.refinements = {{"syntax", "first", "says one"}, {"no_mask", "second", "says two"}};
  write_file_atomic(folder.path() / "pairs.jsonl", to_json(pair).dump() + "\n");
  const auto source = make_source(
      "pairs", YAML::Load(fmt::format("{{path: {}}}", (folder.path() / "pairs.jsonl").string())), "test", {});
  const auto row = source->next();
  ASSERT_TRUE(row && !row->dropped);
  ASSERT_EQ(row->attempts.size(), 2u);
  EXPECT_EQ(row->attempts[0].code, "first");
  EXPECT_EQ(row->attempts[1].feedback, "says two");
  EXPECT_EQ(row->solution, "s");
  EXPECT_FALSE(source->next());
}

}  // namespace
}  // namespace tritonforge::dataset
