#pragma once
// The code in a completion. Pure and total: any bytes give an answer.
//
// <think>...</think> is skipped first (an unclosed <think>, or text before a lone </think> whose opening stood in the
// prompt, too). Fences are lines that begin with ``` after white space. Of the complete blocks the last (or first) one
// that defines ModelNew counts; where none does, the last (or first) ```python block; where there is none, the last (or
// first) block. Text without any fence counts as code only where it begins like Python and defines ModelNew with a
// forward.
#include <string>
#include <string_view>

namespace tritonforge::rollout {

enum class Extracted {
  kFound,
  kTruncated,  // a block or a thinking part was begun and not ended, and there is no complete block
  kNone,       // no code
};
enum class BlockChoice { kLast, kFirst };

struct Extraction {
  Extracted status = Extracted::kNone;
  std::string code;     // without fences, ends with a newline; "" unless kFound
  bool fenced = false;  // false: plain code, of which nobody can tell whether it is complete
};

Extraction extract_code(std::string_view completion, BlockChoice choice = BlockChoice::kLast);
// The completion without its thinking part; `unclosed` says whether that part had no end.
std::string_view without_thinking(std::string_view completion, bool* unclosed);

}  // namespace tritonforge::rollout
