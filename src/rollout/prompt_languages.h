#pragma once
// What a prompt says of the language that candidates are written in, with one worked example each: the same module, an
// addition. tests/adversarial/test_languages.py evaluates every example as it stands here.
#include <string_view>

#include "contract/rollout.h"

namespace tritonforge::rollout {

struct PromptLanguage {
  std::string_view role;     // the system message
  std::string_view kernels;  // "Triton kernels"
  std::string_view kernel;   // "a Triton kernel"
  std::string_view rules;    // how kernels are compiled and launched; empty where the example says all of it
  std::string_view example;  // ModelNew of the addition
};

const PromptLanguage& prompt_language(Backend backend);

}  // namespace tritonforge::rollout
