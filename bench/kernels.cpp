// libs: tf_kernels
// Time of every GPU kernel at Qwen3-8B shapes, beside the rate that this card reaches in a plain copy and in an 8192^3
// product, and beside the best library call where there is one. Needs a GPU and libtritonforge_cuda.so (`make gpu`).
//
// A line: median time of one launch over graph replays (a graph holds enough launches to hide the launch cost and walks
// over input sets larger than the L2 cache), the spread between replays, the rate and its share of the card's.
//
//     kernels [PART ...]    without one all of them
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/card.h"

using namespace tritonforge;

namespace {

const std::vector<std::pair<std::string_view, void (*)()>> kParts = {
    {"step", bench::measure_step},
    {"fp8",
     [] {
       bench::measure_fp8_steps();
       bench::measure_fp8_products();
     }},
    {"decode", bench::measure_decode},
    {"prefix", bench::measure_prefix},
    {"gemm", bench::measure_gemm},
    {"rows", bench::measure_rows},
    {"sample", bench::measure_sample},
    {"prefill", bench::measure_prefill},
    {"blocks", bench::measure_blocks},
    {"backward", bench::measure_backward},
    {"checksum", bench::measure_checksum},
};

void run(const std::vector<std::string_view>& wanted) {
  std::vector<std::string_view> names;
  for (const auto& part : kParts) names.push_back(part.first);
  for (const std::string_view one : wanted) {
    if (std::ranges::find(names, one) == names.end())
      fail(ErrorKind::kUsage, "no part '{}'; there are {}", one, fmt::join(names, ", "));
  }
  const bench::Card card;
  for (const auto& [name, measure] : kParts) {
    if (wanted.empty() || std::ranges::find(wanted, name) != wanted.end()) measure();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "kernels: {}\n", error.what());
    return exit_code(error.kind());
  }
}
