#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "dataset/stages/kept_answers.h"
#include "dataset/stages/thinking.h"
#include "fake_build.h"

namespace tritonforge::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Row after(const std::string& stage, const std::string& options, Row row) {
  TemporaryFolder folder("tf-stage");
  const auto made = make_stage(stage, YAML::Load(options), "test", fake_context(folder.path()));
  made->work(row);
  if (!row.dropped) made->decide(row);
  return row;
}

Row pair_of(const std::string& problem, const std::string& solution) {
  Row row;
  row.problem = problem;
  row.solution = solution;
  return row;
}

Row answer_of(const std::string& content) {
  Row row;
  row.messages = {{{"user", "q <think>"}}, {{"assistant", content}, true}};
  return row;
}

TEST(Clean, WhatIsRepairedIsSaidAndWhatCannotBeIsDropped) {
  const Row row = after("clean", "{}", pair_of("\xEF\xBB\xBFx = 1\r\n\ty\r", "z"));
  EXPECT_EQ(row.problem, "x = 1\n\ty\n");
  EXPECT_THAT(row.repairs, ElementsAre("bom", "crlf"));
  EXPECT_FALSE(row.dropped);
  EXPECT_EQ(after("clean", "{}", pair_of("x\xFF", "z")).dropped->reason, "not UTF-8");
  EXPECT_EQ(after("clean", "{}", pair_of(std::string("x\0", 2), "z")).dropped->reason, "a NUL character");
  EXPECT_EQ(after("clean", "{}", pair_of(std::string(5 << 20, 'x'), "z")).dropped->reason, "longer than max_bytes");
  EXPECT_EQ(after("clean", "{}", pair_of(" \n", "z")).dropped->reason, "an empty problem");
}

TEST(Convert, RefusedAttemptsStandBeforeTheSolutionWhichAloneIsLearned) {
  Row row = pair_of("p", "right");
  for (const char* code : {"one", "two", "three"}) row.attempts.push_back({code, "", std::string("not ") + code});
  row.reasoning = "because";
  row = after("convert", "{max_turns: 3}", row);
  std::vector<std::string> said;
  for (const auto& [message, learned] : row.messages) said.push_back(message.content + (learned ? "!" : ""));
  EXPECT_THAT(said, ElementsAre("ask p", "say two", "not two", "say three", "not three", "say right!"));
  EXPECT_EQ(row.messages.back().message.reasoning_content, "because");
  EXPECT_FALSE(after("convert", "{}", pair_of("p", "")).learns());
  EXPECT_EQ(after("convert", "{learn_repairs_only: true}", pair_of("p", "x")).dropped->reason, "was never refused");
}

TEST(Convert, WhatInductorPrintedIsRewrittenOrKeptWithAReason) {
  const auto learned = [](const Row& row) { return row.messages.back().message.content; };
  const std::string printed = "x = torch._C._dynamo.guards._empty_strided_cuda";
  const Row rewritten = after("convert", "{}", pair_of("p", printed));
  EXPECT_EQ(learned(rewritten), "say rewritten " + printed);
  EXPECT_THAT(rewritten.repairs, ElementsAre("inductor_rewritten"));
  const Row kept = after("convert", "{}", pair_of("p", "cut import torch._inductor"));
  EXPECT_EQ(learned(kept), "say cut import torch._inductor");
  EXPECT_THAT(kept.repairs, ElementsAre("inductor_kept: it has no function call"));

  const Row off = after("convert", "{inductor: keep}", pair_of("p", printed));
  EXPECT_EQ(learned(off), "say " + printed);
  EXPECT_TRUE(off.repairs.empty());
  const Row other = after("convert", "{}", pair_of("p", "import triton"));
  EXPECT_EQ(learned(other), "say import triton");
  EXPECT_TRUE(other.repairs.empty());
}

TEST(Thinking, AThoughtIsPlacedAndWhatIsNotBalancedIsDropped) {
  const auto outcome = [](const std::string& content) {
    const Row row = after("thinking", "{}", answer_of(content));
    if (row.dropped) return row.dropped->reason;
    const tokenizer::Message& said = row.messages[1].message;
    return said.reasoning_content + "|" + said.content + (row.repairs.empty() ? "" : "|" + row.repairs[0]);
  };
  EXPECT_EQ(outcome("a"), "|a");
  EXPECT_EQ(outcome("<think>\nt\n</think>\n\na"), "t|a");
  EXPECT_EQ(outcome("<think></think>a"), "|a");
  EXPECT_EQ(outcome("t\n</think>\n\na"), "t|a|thought_without_opening");
  EXPECT_EQ(outcome("<think>t"), "a thought that is not closed");
  EXPECT_EQ(outcome("<think>t<think>u</think></think>a"), "a thought within a thought");
  EXPECT_EQ(outcome("<think>t</think>a<think>u</think>"), "more than one thought");
  EXPECT_EQ(outcome("a <think>t</think>"), "a thought behind text");
  EXPECT_EQ(after("thinking", "{required: true}", answer_of("a")).dropped->reason, "no thought");
  EXPECT_EQ(after("thinking", "{from: strip}", answer_of("<think>t</think>a")).messages[1].message.reasoning_content,
            "");
}

TEST(Thinking, APlanNamesOperatorsKernelsAndTiles) {
  const std::string solution =
      "import triton\n@triton.jit\ndef relu_kernel(x, BLOCK):\n    o = tl.arange(0, BLOCK)\n"
      "class ModelNew: pass\n";
  const std::string plan = plan_of("class Model:\n  def forward(self, x): return torch.relu(x)", solution);
  EXPECT_THAT(plan, HasSubstr("activation"));
  EXPECT_THAT(plan, HasSubstr("relu_kernel"));
  EXPECT_THAT(plan, HasSubstr("BLOCK"));
}

TEST(Thinking, ATeacherIsAskedOncePerAnswer) {
  TemporaryFolder folder("tf-teacher");
  int asked = 0;
  StageContext context = fake_context(folder.path());
  context.tools.teacher = [&](const std::string&, const std::string&) {
    return [&](const std::vector<tokenizer::Message>&) -> Result<std::string> {
      ++asked;
      return std::string("<think>own</think>\nI tile it.\n");
    };
  };
  for (int build = 0; build < 2; ++build) {
    const auto stage = make_stage("thinking", YAML::Load("{from: teacher, url: 'http://u', model: m}"), "test",
                                  context);
    Row row = answer_of("a");
    row.problem = "p";
    row.solution = "s";
    stage->work(row);
    EXPECT_EQ(row.messages[1].message.reasoning_content, "I tile it.");
  }
  EXPECT_EQ(asked, 1);
}

TEST(Thinking, NoThoughtIsAskedForAgain) {
  TemporaryFolder folder("tf-teacher");
  int asked = 0;
  StageContext context = fake_context(folder.path());
  context.tools.teacher = [&](const std::string&, const std::string&) {
    return [&](const std::vector<tokenizer::Message>&) -> Result<std::string> {
      return std::string(++asked == 1 ? "<think>cut" : "I tile it.");
    };
  };
  for (const char* thought : {"", "I tile it.", "I tile it."}) {
    const auto stage = make_stage("thinking", YAML::Load("{from: teacher, url: 'http://u', model: m}"), "test",
                                  context);
    Row row = answer_of("a");
    row.problem = "p";
    row.solution = "s";
    stage->work(row);
    EXPECT_EQ(row.messages[1].message.reasoning_content, thought);
  }
  EXPECT_EQ(asked, 2);
}

TEST(Length, DropsBelowAndAboveAndCountsBoth) {
  TemporaryFolder folder("tf-stage");
  StageContext context = fake_context(folder.path());
  context.has_tokens = true;
  const auto stage = make_stage("length", YAML::Load("{min: 3, max: 4}"), "test", context);
  std::vector<std::string> outcomes;
  for (const size_t length : {2u, 3u, 4u, 5u}) {
    Row row;
    row.tokens.tokens.resize(length);
    stage->decide(row);
    outcomes.push_back(row.dropped ? row.dropped->reason : "kept");
  }
  EXPECT_THAT(outcomes, ElementsAre("shorter than min", "kept", "kept", "longer than max"));
  EXPECT_EQ(stage->report()["tokens"][0]["rows"], 4);
}

TEST(Dedup, ExactNormalisedAndNear) {
  TemporaryFolder folder("tf-stage");
  const auto stage = make_stage("dedup", YAML::Load("{near: 0.8}"), "test", fake_context(folder.path()));
  std::string long_text = "def f(a):\n";
  for (int i = 0; i < 60; ++i) long_text += fmt::format("    a = a * {} + tl.exp(a)\n", i);
  std::string near = long_text, renamed = rename_names(long_text, {{"a", "b"}});
  near.replace(near.find("* 30 +"), 6, "* 99 +");
  std::vector<std::string> outcomes;
  for (const std::string& text : {long_text, long_text, renamed + "\n# x\n", near, std::string("x = 1")}) {
    Row row = pair_of(text, "s");
    row.uuid = fmt::format("u{}", outcomes.size());
    stage->work(row);
    stage->decide(row);
    outcomes.push_back(row.dropped ? row.dropped->reason + " " + row.dropped->detail.substr(0, 2) : "kept");
  }
  EXPECT_THAT(outcomes, ElementsAre("kept", "exact u0", "normalised u0", "near u0", "kept"));
}

TEST(Contamination, AnEvaluationProblemIsFoundUnderOtherNamesAndNamed) {
  TemporaryFolder folder("tf-stage");
  const std::string source =
      "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
      "def get_inputs():\n    return [torch.rand(4)]\ndef get_init_inputs():\n    return []\n";
  write_file_atomic(folder.path() / "7_relu.py", source);
  const std::string options = "{problems: [" + (folder.path() / "7_relu.py").string() + "], near: 0.8}";
  const std::string other = rename_names(source, {{"x", "value"}});
  EXPECT_EQ(after("contamination", options, pair_of("# mine\n" + other, "s")).dropped->detail, "7_relu");
  Row chat = answer_of("a");
  chat.messages[0].message.content = "Do this:\n```python\n" + other + "```\n";
  EXPECT_EQ(after("contamination", options, chat).dropped->reason, "an evaluation problem");
  for (const std::string& asked : {"Make ```relu``` fast:\n```python\n" + other + "```\n", "Do this:\n```\n" + other,
                                   "Do ```this```, without a fence: " + other}) {
    chat.messages[0].message.content = asked;
    EXPECT_THAT(after("contamination", options, chat).dropped.value().detail, HasSubstr("7_relu")) << asked;
  }
  EXPECT_THAT(after("contamination", options, answer_of("It is\n```\n" + other + "```\n")).dropped.value().detail,
              HasSubstr("7_relu"));
  EXPECT_FALSE(after("contamination", options, answer_of("It is\n```python\nimport torch\n```\n")).dropped);
  EXPECT_FALSE(after("contamination", options, pair_of("import torch\nclass Model: pass\n", "s")).dropped);
}

TEST(Split, EqualProblemsAreOnOneSideAndTheShareIsHeld) {
  int held_out = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string problem = fmt::format("x = {}", i);
    const Row row = after("split", "{holdout: 0.25}", pair_of(problem, "a"));
    EXPECT_EQ(after("split", "{holdout: 0.25}", pair_of(problem + "  # again", "b")).split, row.split);
    held_out += row.split == "holdout";
  }
  EXPECT_NEAR(held_out, 100, 30);
  Row named = pair_of("x", "y");
  named.families = {"relu", "tanh"};
  EXPECT_EQ(after("split", "{by: family, holdout: 0, families: [tanh]}", named).split, "holdout");
}

TEST(Split, OneQuestionIsOnOneSideWhateverIsAnswered) {
  int held_out = 0;
  for (int i = 0; i < 100; ++i) {
    Row one = answer_of("a"), other = answer_of("another answer");
    one.messages[0].message.content = other.messages[0].message.content = fmt::format("ask for {}", i);
    const std::string split = after("split", "{holdout: 0.5}", one).split;
    EXPECT_EQ(after("split", "{holdout: 0.5}", other).split, split);
    held_out += split == "holdout";
  }
  EXPECT_NEAR(held_out, 50, 25);
}

TEST(Split, RowsWithoutAFamilyShareNoDraw) {
  int held_out = 0;
  for (int i = 0; i < 100; ++i)
    held_out += after("split", "{by: family, holdout: 0.5}", pair_of(fmt::format("x = {}", i), "a")).split == "holdout";
  EXPECT_NEAR(held_out, 50, 25);
}

TEST(Quality, AVerdictIsKeptAndNotAskedForAgainAlsoAfterATornLine) {
  TemporaryFolder folder("tf-quality");
  int judged = 0;
  StageContext context = fake_context(folder.path());
  context.tools.judge = [&](const std::vector<std::string>&, int64_t, double, int64_t) {
    return [&](const std::string&, const std::string& candidate) -> Result<Verdict> {
      ++judged;
      Verdict verdict;
      verdict.correct = candidate == "good";
      if (!verdict.correct) verdict.fault = Fault::kMismatch;
      return verdict;
    };
  };
  const auto outcomes = [&] {
    const auto stage = make_stage("quality", YAML::Load("{}"), "test", context);
    std::vector<std::string> out;
    for (const char* solution : {"good", "bad", ""}) {
      Row row = pair_of("p", solution);
      stage->work(row);
      out.push_back(row.dropped ? row.dropped->reason : "kept");
    }
    return out;
  };
  EXPECT_THAT(outcomes(), ElementsAre("kept", "mismatch", "no problem and solution to judge"));
  EXPECT_EQ(judged, 2);
  const fs::path file = folder.path() / "verdicts.jsonl";
  std::ofstream(file, std::ios::app) << "{\"key\": \"torn";
  EXPECT_THAT(outcomes(), ElementsAre("kept", "mismatch", "no problem and solution to judge"));
  EXPECT_EQ(judged, 2);
  const std::string text = read_file(file);  // the last verdict as a kill left it: that one alone is asked for again
  write_file_atomic(file, text.substr(0, text.rfind('\n') - 8));
  outcomes();
  EXPECT_EQ(judged, 3);
}

TEST(Quality, ARowThatIsRefusedIsDroppedAndAServerThatIsGoneEndsTheBuild) {
  TemporaryFolder folder("tf-quality");
  StageContext context = fake_context(folder.path());
  context.tools.judge = [](const std::vector<std::string>&, int64_t, double, int64_t) {
    return [](const std::string&, const std::string& candidate) -> Result<Verdict> {
      const ErrorKind kind = candidate == "long"   ? ErrorKind::kUsage
                             : candidate == "gone" ? ErrorKind::kUnavailable
                                                   : ErrorKind::kTimeout;
      return Error(kind, "candidate: too long");
    };
  };
  const auto stage = make_stage("quality", YAML::Load("{}"), "test", context);
  Row row = pair_of("p", "long");
  stage->work(row);
  EXPECT_EQ(row.dropped.value().detail, "candidate: too long");
  for (const char* answer : {"gone", "waited for in vain"}) {
    Row other = pair_of("p", answer);
    EXPECT_THROW(stage->work(other), Error) << answer;
    EXPECT_FALSE(other.dropped.has_value());
  }
  EXPECT_FALSE(fs::exists(folder.path() / "verdicts.jsonl"));
}

TEST(Quality, AServerThatRefusesEveryFirstRowEndsTheBuild) {
  TemporaryFolder folder("tf-quality");
  StageContext context = fake_context(folder.path());
  context.tools.judge = [](const std::vector<std::string>&, int64_t, double, int64_t) {
    return [](const std::string&, const std::string&) -> Result<Verdict> {
      return Error(ErrorKind::kUsage, "401 this server needs its API key");
    };
  };
  const auto stage = make_stage("quality", YAML::Load("{}"), "test", context);
  int dropped = 0;
  try {
    for (;; ++dropped) {
      Row row = pair_of("p", std::to_string(dropped));
      stage->work(row);
    }
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("401"));
  }
  EXPECT_EQ(dropped, 19);
}

TEST(Thinking, ARowThatTheTeacherRefusesIsDropped) {
  TemporaryFolder folder("tf-teacher");
  StageContext context = fake_context(folder.path());
  context.tools.teacher = [](const std::string&, const std::string&) {
    return [](const std::vector<tokenizer::Message>&) -> Result<std::string> {
      return Error(ErrorKind::kUsage, "the prompt is too long");
    };
  };
  const auto stage = make_stage("thinking", YAML::Load("{from: teacher, url: 'http://u', model: m}"), "test", context);
  Row row = answer_of("a");
  row.problem = "p";
  row.solution = "s";
  stage->work(row);
  EXPECT_EQ(row.dropped.value().detail, "the prompt is too long");
}

TEST(MakeStage, AnUnknownStageOrOptionIsNamedWithTheNearest) {
  TemporaryFolder folder("tf-stage");
  const auto error_of = [&](const std::string& stage, const std::string& options) {
    try {
      make_stage(stage, YAML::Load(options), "c.yaml: stages", fake_context(folder.path()));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of("dedupe", "{}"), HasSubstr("did you mean 'dedup'"));
  EXPECT_THAT(error_of("dedup", "{nere: 0.5}"), HasSubstr("near"));
  EXPECT_THAT(error_of("thinking", "{from: teacher}"), HasSubstr("'url'"));
}

}  // namespace
}  // namespace tritonforge::dataset
