// libs: tf_dataset
// A pairs file is read or refused with kUsage, and what was read can be counted and written again.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "dataset/pair.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    const auto pairs = dataset::parse_pairs_jsonl({reinterpret_cast<const char*>(data), size}, "fuzz");
    std::string again;
    for (const auto& pair : pairs) again += to_json(pair).dump() + "\n";
    if (dataset::parse_pairs_jsonl(again, "again").size() != pairs.size()) return 1;
    if (dataset::stats_of(pairs).pairs != pairs.size()) return 1;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {R"({"id": "a", "families": ["relu", "mul"], "combo": "relu+mul", "split": "train", )"
          R"("style": "compact", "problem": "p", "solution": "s",)"
          R"( "messages": [{"role": "user", "content": "p"}], "verified": true, "seed": 7, )"
          R"("refinement": {"mistake": "syntax", "wrong": "w", "feedback": "f"}})"};
}
