#pragma once
// What the model is asked and what it is told about its last attempt, by named style:
//   kernelbench  role, task, one worked example (torch add -> the same in the language asked for), the problem, the
//   form of the answer;
//                feedback with stage, compiler text, worst mismatch, times, flags (at most kMaxFeedbackBytes)
//   minimal      for tiny models: the user message is the problem's source and nothing else; feedback is one short line
//                (at most kMaxMinimalFeedbackBytes)
// In both the answer is one ```python block that defines ModelNew. The SFT data uses the same functions, so that a
// model meets in RL exactly the text that it was taught on.
#include <string>
#include <vector>

#include "contract/problem.h"
#include "contract/rollout.h"
#include "contract/verdict.h"
#include "tokenizer/chat_template.h"

namespace tritonforge::rollout {

inline constexpr size_t kMaxFeedbackBytes = 6000;
inline constexpr size_t kMaxMinimalFeedbackBytes = 200;

std::vector<tokenizer::Message> first_messages(PromptStyle style, const Problem& problem,
                                               Backend backend = Backend::kTriton);
// The messages that a group's trajectories begin with: its own, or those of its prompt style.
std::vector<tokenizer::Message> opening_messages(const GroupSpec& group);
// The user message after an attempt. A pure function of the verdict; free of chat control tokens.
tokenizer::Message feedback_message(PromptStyle style, const Verdict& verdict);
// The answer a taught model gives: the code in one ```python block.
tokenizer::Message answer_message(std::string_view code);

}  // namespace tritonforge::rollout
