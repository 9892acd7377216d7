#pragma once
// Families that are a whole kernel rather than a line: matrix products, transposes, losses, indexing, scans, and layers
// that stay PyTorch's while what follows them becomes one kernel. Part of the style "full". To add one, add a file to
// families/ (family_file.h says what it holds).
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "dataset/template_file.h"

namespace tritonforge::dataset {

// Texts hold _NAME_ for each choice and, where max_epilogue > 0, lines "out = _EPILOGUE_(out)".
struct Special {
  std::string name;
  std::vector<Choice> choices;  // in the order in which they are drawn
  std::string problem, solution;
  size_t min_epilogue = 0, max_epilogue = 0;
};

const std::vector<Special>& all_specials();
const Special* find_special(std::string_view name);  // nullptr where there is none

struct SpecialDraw {
  std::vector<std::string> families;
  std::string problem, solution;
};
SpecialDraw draw_special(const Special& special, Rng& rng);

}  // namespace tritonforge::dataset
