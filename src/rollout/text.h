#pragma once
// Small text helpers of prompts and feedback. All keep UTF-8 whole and bound their result.
#include <string>
#include <string_view>

namespace tritonforge::rollout {

// At most `max_bytes` bytes of the text's start, never ending inside a character; "..." where something was cut.
std::string clip_text(std::string_view text, size_t max_bytes);
// The start and the end of a long text with "[... N bytes left out ...]" between: compilers say the cause first, Python
// says it last.
std::string clip_middle(std::string_view text, size_t max_bytes);
// Text from outside that goes into a prompt: "<|" becomes "< |", so that no chat control token can be forged, control
// characters but newline and tab are dropped, and terminal colour sequences with them.
std::string sanitise(std::string_view text);
// The first non-empty lines, joined with " | ", at most `max_bytes`.
std::string first_lines(std::string_view text, size_t max_bytes);

}  // namespace tritonforge::rollout
