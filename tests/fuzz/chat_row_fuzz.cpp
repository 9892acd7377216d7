// libs: tf_dataset
// Rows of anybody's conversations: dropped with a reason or kept in a shape that every stage behind takes, whatever the
// bytes. Then a KernelBook row of the same text.
#include <string>
#include <string_view>
#include <vector>

#include "dataset/sources/chat.h"
#include "dataset/sources/kernelbook.h"
#include "dataset/stages/thinking.h"

using namespace tritonforge;
using namespace tritonforge::dataset;

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Row row = chat_row({}, parse_line(text, "fuzz"));
  if (row.dropped) {
    if (row.dropped->reason.empty()) return 1;
  } else {
    if (row.messages.empty() || row.messages.back().message.role != "assistant" || !row.learns()) return 1;
    for (auto& each : row.messages) separate_thought(each.message);
    to_json(row).dump();
  }
  Row pair;
  pair.problem = pair.solution = text;
  pair.entry_point = "Foo";
  take_kernelbook_form(pair);
  return pair.dropped || pair.entry_point.empty() ? 0 : 1;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, )"
      R"({"role": "assistant", "content": "<think>\nt\n</think>\n\na", "weight": 1}], "uuid": 3, "licence": "MIT"})",
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]}, {"role": "assistant", )"
      R"("content": null, "tool_calls": []}, {"role": "tool", "content": "r"}]})",
      "class Foo(nn.Module):\n    def __init__(self, a, b=2):\n        pass\n\ndef get_init_inputs():\n"
      "    return [[1], {'b': f([2])}]\nclass FooNew: pass\nModelNew\n",
      "from _paritybench_helpers import _mock_config\nclass Foo:\n    def __init__(self, a=1, *, b=(2, 3), **c):\n"
      "        pass\n\ndef get_init_inputs():\n    return [[], {'b': _mock_config(d=4)}]\nclass FooNew:\n"
      "    def __init__(self, a=1, *, b=(2, 3)):\n        pass\n"};
}
