#pragma once
// Families that are a whole kernel rather than a line: matrix products, transposes, losses, indexing, scans. Part of the
// style "full". To add one, add an entry to special.cpp.
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace tritonforge {

// Texts hold {KEY} for each choice. {epilogue} in both: up to two element-wise families, as statements on `out`
// in the problem and on `acc` in the kernel.
struct Special {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> choices;
  std::string_view problem, solution;
};

const std::vector<Special>& all_specials();
const Special* find_special(std::string_view name);  // nullptr where there is none

struct SpecialDraw {
  std::vector<std::string> families;
  std::string problem, solution;
};
SpecialDraw draw_special(const Special& special, Rng& rng);

}  // namespace tritonforge
