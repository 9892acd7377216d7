#pragma once
// Families that are a whole kernel rather than a line: matrix products, transposes, losses, indexing, scans
// (special_kernels.cpp), and layers that stay PyTorch's while what follows them becomes one kernel (layers.cpp). Part
// of the style "full". To add one, add an entry there.
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace tritonforge::dataset {

// Texts hold {KEY} for each choice. {epilogue} in both: element-wise families, as statements on `out` in the problem
// and on `value` in the kernel; between min_epilogue and min_epilogue + 2 of them.
struct Special {
  std::string name;
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> choices;
  std::string problem, solution;
  std::string_view value = "acc";
  size_t min_epilogue = 0;
};

std::vector<Special> kernel_specials();
std::vector<Special> layer_specials();
const std::vector<Special>& all_specials();
const Special* find_special(std::string_view name);  // nullptr where there is none

struct SpecialDraw {
  std::vector<std::string> families;
  std::string problem, solution;
};
SpecialDraw draw_special(const Special& special, Rng& rng);

}  // namespace tritonforge::dataset
