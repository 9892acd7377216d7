// libs: tf_dataset
// A family file is read or refused with kCorrupt, and what was read can be drawn: no placeholder is left without a
// value.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "dataset/family_file.h"

using namespace tritonforge;
using namespace tritonforge::dataset;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    for (const auto& family : parse_family_file("fuzz.py", {reinterpret_cast<const char*>(data), size}).families) {
      Rng rng(1);
      const auto draw = draw_special(family, rng);
      if (draw.problem.empty() || draw.families.empty()) return 1;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [name, text] : family_files) {
    if (name == "layer.py" || name == "matmul.py") seeds.emplace_back(text);
  }
  return seeds;
}
