#pragma once
// An assistant's text in Qwen's formats, taken apart as it grows: reasoning between <think> and </think>, content, and
// tool calls, each `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` (Qwen2.5 and Qwen3; Hermes' form).
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::engine {

struct ToolCall {
  std::string name, arguments;  // JSON, its keys in the order in which they came
  bool operator==(const ToolCall&) const = default;
};

struct AssistantParts {
  std::string reasoning, content;
  std::vector<ToolCall> calls;
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

class AssistantText {
 public:
  // What is not taken apart stays content.
  AssistantText(bool reasoning, bool tools) : tools_(tools), state_(reasoning ? State::kStart : State::kContent) {}
  // What `text`, everything so far, adds to what was returned before; all calls' parts joined are those of one call
  // with the whole text. What may still become a tag is held back until `over`. White space around reasoning and
  // around tool calls belongs to nobody. A call that is no JSON with a name, or never ends, is content as it came.
  AssistantParts advance(std::string_view text, bool over);

 private:
  enum class State { kStart, kBeforeReasoning, kReasoning, kAfterReasoning, kContent, kCall, kAfterCall };
  bool start(std::string_view rest, bool over);
  bool reasoning(std::string_view rest, bool over, AssistantParts& parts);
  bool content(std::string_view rest, bool over, AssistantParts& parts);
  bool call(std::string_view rest, bool over, AssistantParts& parts);
  bool skip_space(std::string_view rest, State next);

  const bool tools_;
  State state_;
  size_t at_ = 0;  // up to here it was returned
};

}  // namespace tritonforge::engine
