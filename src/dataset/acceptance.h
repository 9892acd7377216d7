#pragma once
// What every maker of pairs has in common: an evaluator accepts the solution, and the conversation follows.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "contract/verdict.h"
#include "dataset/pair.h"

namespace tritonforge::dataset {

// A verdict on a candidate, or why there is none (which ends the making). Called by several threads at once.
using EvaluatePair = std::function<Result<Verdict>(const std::string& problem, const std::string& candidate)>;

// The conversation's texts; `rollout` owns them, so that a model meets in RL what it was taught on.
struct ConversationTexts {
  std::function<std::vector<tokenizer::Message>(const Problem&)> first;
  std::function<tokenizer::Message(const Verdict&)> feedback;
  std::function<tokenizer::Message(const std::string& code)> answer;
};

inline bool is_accepted(const Verdict& verdict) { return verdict.correct && !verdict.cheated(); }

// What a refusal is counted as: what it cheats by, or its fault and what was said up to the first colon.
std::string reason_of(const Verdict& verdict);
// The same of a text alone.
std::string reason_of(std::string_view text);

// For a person: whose solution was refused, its fault, and the beginning of what was said.
std::string refusal_of(std::string_view name, const Verdict& verdict);

// Asked, answered wrongly and corrected as often as there are refinements, answered.
std::vector<tokenizer::Message> conversation_of(const Pair& pair, const ConversationTexts& texts);

}  // namespace tritonforge::dataset
