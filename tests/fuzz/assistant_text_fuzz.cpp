// libs: tf_engine
// A text taken apart piece by piece gives what the whole gives, and nothing escapes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/assistant_text.h"

using namespace tritonforge::engine;

int fuzz_one(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const bool reasoning = (data[0] & 1) != 0, tools = (data[0] & 2) != 0;
  const size_t step = 1 + data[1] % 16;
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const AssistantParts whole = AssistantText(reasoning, tools).advance(text, true);
  AssistantText parser(reasoning, tools);
  AssistantParts joined;
  for (size_t end = 0;; end += step) {
    const bool over = end >= text.size();
    const AssistantParts part = parser.advance(std::string_view(text).substr(0, end), over);
    joined.reasoning += part.reasoning;
    joined.content += part.content;
    joined.calls.insert(joined.calls.end(), part.calls.begin(), part.calls.end());
    if (over) break;
  }
  if (joined.reasoning != whole.reasoning || joined.content != whole.content || joined.calls != whole.calls)
    std::abort();
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"\x03\x02<think>\na\n</think>\n\nb\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
          "\x02\x01 x <tool_call>{\"name\":\"f\"}</tool_call> y <tool_call>z</tool_call>", "\x01\x05<think>abc"};
}
