#pragma once
// What a build is given by the command, in a few words: asks "ask PROBLEM", says "say CODE".
#include <string>

#include "dataset/build/build.h"
#include "dataset/similarity/python_tokens.h"

namespace tritonforge::dataset {

inline BuildTools fake_tools() {
  BuildTools tools;
  tools.stages.first_messages = [](PromptStyle, const Problem& problem) {
    return std::vector<tokenizer::Message>{{"user", "ask " + problem.source}};
  };
  tools.stages.answer_message = [](const std::string& code) { return tokenizer::Message{"assistant", "say " + code}; };
  tools.stages.code_of = [](const std::string& answer) { return answer.starts_with("say ") ? answer.substr(4) : ""; };
  tools.stages.rewrite = [](const std::string& solution) -> Result<std::string> {
    if (solution.starts_with("cut")) return Error(ErrorKind::kUnsupported, "it has no function call: in the fake");
    return "rewritten " + solution;
  };
  return tools;
}

inline StageContext fake_context(const fs::path& output) { return {.tools = fake_tools().stages, .output = output}; }

}  // namespace tritonforge::dataset
