#pragma once
// <think> ... </think> in an answer.
#include <string>

#include "tokenizer/chat_template.h"

namespace tritonforge::dataset {

struct ThoughtFound {
  std::string problem;    // why the tags cannot be understood; "" where they can
  bool repaired = false;  // the opening tag was missing: it stood in the prompt
};
// Moves the one thought at the begin of an answer from its content to reasoning_content. A thought that is not closed,
// nested, behind text, or one of several is a problem, and the message stays as it was.
ThoughtFound separate_thought(tokenizer::Message& answer);

// A plan of the solution, from what problem and solution say of themselves: the operators, the kernels, what they tile.
std::string plan_of(const std::string& problem, const std::string& solution);

}  // namespace tritonforge::dataset
