#include "rollout/extract.h"

#include <gtest/gtest.h>

namespace tritonforge::rollout {
namespace {

constexpr char kNew[] = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n";

std::string block(const std::string& code, const std::string& language = "python") {
  return "```" + language + "\n" + code + "```\n";
}

TEST(Extract, TakesTheOnlyPythonBlock) {
  const auto found = extract_code("Here it is:\n" + block(kNew) + "Done.");
  EXPECT_EQ(found.status, Extracted::kFound);
  EXPECT_EQ(found.code, kNew);
  EXPECT_TRUE(found.fenced);
}

TEST(Extract, TakesTheLastOrFirstBlockThatDefinesModelNew) {
  const std::string first = std::string("# first\n") + kNew, second = std::string("# second\n") + kNew;
  const std::string text = block(first) + block(second) + "and a note\n" + block("print('usage')\n");
  EXPECT_EQ(extract_code(text).code, second);
  EXPECT_EQ(extract_code(text, BlockChoice::kFirst).code, first);
}

TEST(Extract, FallsBackToAPythonBlockAndThenToAnyBlock) {
  EXPECT_EQ(extract_code(block("a = 1\n") + block("ls\n", "bash")).code, "a = 1\n");
  EXPECT_EQ(extract_code(block("a = 2\n", "")).code, "a = 2\n");
}

TEST(Extract, KnowsIndentedAndLongerFencesAndBackticksInside) {
  EXPECT_EQ(extract_code("  ```Python\nx = 1\n  ```").code, "x = 1\n");
  EXPECT_EQ(extract_code("````python\ndoc = '''\n```\n'''\n````\n").code, "doc = '''\n```\n'''\n");
  EXPECT_EQ(extract_code("use ```x``` inline\n" + block(kNew)).code, kNew);
}

TEST(Extract, AnUnclosedBlockIsTruncated) {
  const auto found = extract_code(std::string("```python\n") + kNew);
  EXPECT_EQ(found.status, Extracted::kTruncated);
  EXPECT_EQ(found.code, "");
}

TEST(Extract, AnEarlierExampleDoesNotStandInForACutAnswer) {
  EXPECT_EQ(extract_code(block("example = 1\n") + "```python\nclass ModelNew").status, Extracted::kTruncated);
}

TEST(Extract, AnEarlierWholeAnswerCountsWhenALaterOneIsCut) {
  const auto found = extract_code(block(kNew) + "better:\n```python\nclass ModelNew");
  EXPECT_EQ(found.status, Extracted::kFound);
  EXPECT_EQ(found.code, kNew);
}

TEST(Extract, SkipsThinking) {
  const std::string thought = "<think>\nmaybe\n" + block("class ModelNew: wrong\n") + "</think>\n";
  EXPECT_EQ(extract_code(thought + block(kNew)).code, kNew);
  EXPECT_EQ(extract_code("thoughts whose opening is in the prompt</think>" + block(kNew)).code, kNew);
  EXPECT_EQ(extract_code("<think>never ends " + block(kNew)).status, Extracted::kTruncated);
}

TEST(Extract, PlainCodeOnlyWhereItDefinesModelNew) {
  const auto plain = extract_code(kNew);
  EXPECT_EQ(plain.status, Extracted::kFound);
  EXPECT_FALSE(plain.fenced);
  EXPECT_EQ(extract_code("import torch\nprint(1)\n").status, Extracted::kNone);
  EXPECT_EQ(extract_code("import torch\nclass ModelNewer:\n  def forward(self): pass\n").status, Extracted::kNone);
  EXPECT_EQ(extract_code(std::string("Sure, here you are. ") + kNew).status, Extracted::kNone);
}

TEST(Extract, NothingInNothing) {
  EXPECT_EQ(extract_code("").status, Extracted::kNone);
  EXPECT_EQ(extract_code("I cannot do that.").status, Extracted::kNone);
  EXPECT_EQ(extract_code("```python\n```").status, Extracted::kNone);
}

}  // namespace
}  // namespace tritonforge::rollout
