// libs: tf_dataset
// A part file is read or refused with kCorrupt, and what was read can be drawn: no placeholder is left without a
// value.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "dataset/chain.h"

using namespace tritonforge;
using namespace tritonforge::dataset;

int fuzz_one(const uint8_t* data, size_t size) {
  try {
    for (const auto& part : parse_part_file("fuzz.py", {reinterpret_cast<const char*>(data), size})) {
      Rng rng(1);
      const auto draw = draw_chain({&part}, rng, &part);
      if (draw.problem.empty() || draw.families.empty()) return 1;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) return 1;
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const auto& [name, text] : part_files) {
    if (name == "softmax_online.py" || name == "conv2d_gemm.py") seeds.emplace_back(text);
  }
  return seeds;
}
