// libs: tf_dataset
// The reader of problem lines refuses what is not a problem with an Error, whatever the bytes.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "dataset/problem.h"

using namespace tritonforge;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    const auto problems = dataset::parse_problems_jsonl({reinterpret_cast<const char*>(data), size}, "fuzz");
    std::string again;
    for (const auto& problem : problems) again += dataset::problem_line(problem) + "\n";
    if (dataset::parse_problems_jsonl(again, "again").size() != problems.size()) return 1;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string source =
      R"(class Model:\n pass\ndef get_inputs():\n return []\ndef get_init_inputs():\n return [])";
  return {
      R"({"level": 1, "problem_id": 19, "name": "19_relu.py", "code": ")" + source + "\"}\n",
      R"({"prompt": [{"role": "user", "content": "x"}], "label": ")" + source +
          R"(", "extra_info": {"level": 2, "problem_id": "7", "problem_name": "7_add"}, )"
          R"("instance_id": "kernel_bench_triton_lv2_7"})",
      R"({"id": "a", "families": ["relu", "mul"], "combo": "relu+mul", "problem": ")" + source + "\"}",
  };
}
