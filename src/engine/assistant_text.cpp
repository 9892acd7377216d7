#include "engine/assistant_text.h"

#include <algorithm>
#include <optional>

#include "base/json.h"

namespace tritonforge::engine {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>", kCallBegin = "<tool_call>",
                           kCallEnd = "</tool_call>", kSpace = " \t\r\n";

// How much of the end of `text` may still become `tag`.
size_t begun(std::string_view text, std::string_view tag) {
  for (size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length) {
    if (text.ends_with(tag.substr(0, length))) return length;
  }
  return 0;
}

std::string_view without_space_at_end(std::string_view text) {
  const size_t last = text.find_last_not_of(kSpace);
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

std::optional<ToolCall> read_call(std::string_view text) {
  try {
    const OrderedJson json = parse_ordered_json(text, "tool call");
    if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
    const OrderedJson arguments = json.value("arguments", OrderedJson::object());
    return ToolCall{json["name"].get<std::string>(),
                    arguments.is_string() ? arguments.get<std::string>() : arguments.dump()};
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

AssistantParts AssistantText::advance(std::string_view text, bool over) {
  AssistantParts parts;
  const auto step = [&] {
    const std::string_view rest = text.substr(std::min(at_, text.size()));
    switch (state_) {
      case State::kStart: return start(rest, over);
      case State::kBeforeReasoning: return skip_space(rest, State::kReasoning);
      case State::kReasoning: return reasoning(rest, over, parts);
      case State::kAfterReasoning:
      case State::kAfterCall: return skip_space(rest, State::kContent);
      case State::kContent: return content(rest, over, parts);
      case State::kCall: return call(rest, over, parts);
    }
    return false;
  };
  while (step()) {}
  return parts;
}

// Each of these returns whether there is more to do with the text as it is.

bool AssistantText::start(std::string_view rest, bool over) {
  const size_t first = rest.find_first_not_of(kSpace);
  const std::string_view word = first == std::string_view::npos ? std::string_view() : rest.substr(first);
  if (word.starts_with(kThink)) {
    at_ += first + kThink.size();
    state_ = State::kBeforeReasoning;
  } else if (over || !kThink.starts_with(word)) {
    state_ = State::kContent;
  } else {
    return false;
  }
  return true;
}

bool AssistantText::reasoning(std::string_view rest, bool over, AssistantParts& parts) {
  const size_t end = rest.find(kThinkEnd);
  if (end != std::string_view::npos) {
    parts.reasoning += without_space_at_end(rest.substr(0, end));
    at_ += end + kThinkEnd.size();
    state_ = State::kAfterReasoning;
    return true;
  }
  const std::string_view settled = without_space_at_end(over ? rest
                                                             : rest.substr(0, rest.size() - begun(rest, kThinkEnd)));
  parts.reasoning += settled;
  at_ += settled.size();
  return false;
}

bool AssistantText::skip_space(std::string_view rest, State next) {
  const size_t first = rest.find_first_not_of(kSpace);
  at_ += std::min(first, rest.size());
  if (first == std::string_view::npos) return false;
  state_ = next;
  return true;
}

bool AssistantText::content(std::string_view rest, bool over, AssistantParts& parts) {
  const size_t call = tools_ ? rest.find(kCallBegin) : std::string_view::npos;
  if (call != std::string_view::npos) {
    parts.content += without_space_at_end(rest.substr(0, call));
    at_ += call;
    state_ = State::kCall;
    return true;
  }
  std::string_view settled = rest;
  if (tools_ && !over) settled = without_space_at_end(rest.substr(0, rest.size() - begun(rest, kCallBegin)));
  parts.content += settled;
  at_ += settled.size();
  return false;
}

bool AssistantText::call(std::string_view rest, bool over, AssistantParts& parts) {
  const std::string_view inside = rest.substr(kCallBegin.size());
  const size_t end = inside.find(kCallEnd);
  if (end == std::string_view::npos && !over) return false;
  const size_t length = kCallBegin.size() + (end == std::string_view::npos ? inside.size() : end + kCallEnd.size());
  if (auto read = read_call(inside.substr(0, end))) parts.calls.push_back(*std::move(read));
  else parts.content += rest.substr(0, length);
  at_ += length;
  state_ = State::kAfterCall;
  return true;
}

}  // namespace tritonforge::engine
