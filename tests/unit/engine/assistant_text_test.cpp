#include "engine/assistant_text.h"

#include <gtest/gtest.h>

namespace tritonforge::engine {
namespace {

AssistantParts whole(const std::string& text, bool reasoning = true, bool tools = true) {
  return AssistantText(reasoning, tools).advance(text, true);
}

constexpr const char* kCall =
    "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"b\": 1, \"a\": [\"x\"]}}\n</tool_call>";

TEST(AssistantText, IsReasoningContentAndCalls) {
  const AssistantParts parts = whole("<think>\nI add.\nThen stop.\n</think>\n\nI call it:\n" + std::string(kCall) +
                                     "\n" + "<tool_call>{\"name\":\"g\"}</tool_call>\n done ");
  EXPECT_EQ(parts.reasoning, "I add.\nThen stop.");
  EXPECT_EQ(parts.content, "I call it:done ");
  EXPECT_EQ(parts.calls, (std::vector<ToolCall>{{"run", R"({"b":1,"a":["x"]})"}, {"g", "{}"}}));
}

TEST(AssistantText, WhatIsNotAskedForStaysContent) {
  const std::string text = "<think>a</think>\n" + std::string(kCall);
  EXPECT_EQ(whole(text, false, false).content, text);
  EXPECT_EQ(whole(text, true, false).content, kCall);
  EXPECT_EQ(whole("x <think>a</think>", true, true).content, "x <think>a</think>");
}

TEST(AssistantText, ACallThatIsNoneStaysAsItCame) {
  for (const std::string text : {"<tool_call>{\"name\": }</tool_call>", "<tool_call>{\"name\": 5}</tool_call>",
                                 "<tool_call>[1]</tool_call>", "<tool_call>{\"name\": \"f\", \"argum", "<tool_call>"}) {
    const AssistantParts parts = whole("a " + text);
    EXPECT_EQ(parts.content, "a" + text) << text;
    EXPECT_TRUE(parts.calls.empty());
  }
  EXPECT_EQ(whole("<tool_call>{\"name\": \"f\"}").calls.size(), 1u);  // only its end is missing
  EXPECT_EQ(whole("a <tool_cal").content, "a <tool_cal");
  EXPECT_EQ(whole("<thin").content, "<thin");
}

TEST(AssistantText, AThoughtThatIsCutOffIsAThought) {
  EXPECT_EQ(whole("<think>\nfor ever").reasoning, "for ever");
  EXPECT_EQ(whole("<think>\nfor ever </thin").reasoning, "for ever </thin");
}

// However the text arrives, the parts joined are those of the whole; nothing is given out that is taken back later.
TEST(AssistantText, PiecesGiveTheSameAsTheWhole) {
  const std::string text = "<think>\na < b </thin\n\n c\n</think>\n\n x <tool_calls \n <b>\n" + std::string(kCall) +
                           " \n" + kCall + " tail <tool_call>broken</tool_call> <tool_";
  const AssistantParts expected = whole(text);
  EXPECT_EQ(expected.calls.size(), 2u);
  for (size_t step = 1; step <= 7; ++step) {
    AssistantText parser(true, true);
    AssistantParts joined;
    const auto add = [&](const AssistantParts& part) {
      joined.reasoning += part.reasoning;
      joined.content += part.content;
      joined.calls.insert(joined.calls.end(), part.calls.begin(), part.calls.end());
    };
    for (size_t end = 0; end <= text.size(); end += step) add(parser.advance(text.substr(0, end), false));
    EXPECT_TRUE(expected.content.starts_with(joined.content));
    add(parser.advance(text, true));
    EXPECT_EQ(joined.reasoning, expected.reasoning);
    EXPECT_EQ(joined.content, expected.content);
    EXPECT_EQ(joined.calls, expected.calls);
  }
}

}  // namespace
}  // namespace tritonforge::engine
