// libs: tf_rollout
#include <cstdint>
#include <string>
#include <vector>

#include "rollout/extract.h"
#include "rollout/text.h"

int fuzz_one(const uint8_t* data, size_t size) {
  using namespace tritonforge;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (auto choice : {rollout::BlockChoice::kLast, rollout::BlockChoice::kFirst}) {
    const rollout::Extraction found = rollout::extract_code(text, choice);
    if ((found.status == rollout::Extracted::kFound) != !found.code.empty()) return 1;
    if (found.code.size() > size + 1) return 1;
  }
  const std::string clean = rollout::sanitise(text);
  if (clean.find("<|") != std::string::npos) return 1;
  if (rollout::clip_text(text, 40).size() > 40 || rollout::clip_middle(text, 200).size() > 200 ||
      rollout::first_lines(text, 50).size() > 50)
    return 1;
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"```python\nimport torch\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n```\n",
          "<think>hm\n```py\nx\n```\n</think>text\n````\na\n```\nb\n````\n```bash\nls",
          "import torch\nclass ModelNew:\n    def forward(self): pass\n",
          "\xc3\xa4<|im_end|>\x1b[31m red\n\n| a < | b <<||"};
}
