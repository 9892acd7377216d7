#include "dataset/acceptance.h"

namespace tritonforge::dataset {

std::string reason_of(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of(":\n"))).substr(0, 60);
}

std::string reason_of(const Verdict& verdict) {
  for (const Flag& flag : verdict.flags) {
    if (flag.cheat()) return std::string(name_of(flag.kind));
  }
  return fmt::format("{}: {}", name_of(verdict.fault), reason_of(std::string_view(verdict.diagnostics)));
}

std::string refusal_of(std::string_view name, const Verdict& verdict) {
  return fmt::format("{}: {}: {}", name, name_of(verdict.fault), verdict.diagnostics.substr(0, 400));
}

std::vector<tokenizer::Message> conversation_of(const Pair& pair, const ConversationTexts& texts) {
  auto messages = texts.first(problem_of(pair, 0));
  for (const auto& refinement : pair.refinements) {
    messages.push_back(texts.answer(refinement.wrong));
    messages.push_back(tokenizer::Message{.role = "user", .content = refinement.feedback});
  }
  messages.push_back(texts.answer(pair.solution));
  return messages;
}

}  // namespace tritonforge::dataset
