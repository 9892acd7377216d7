#include "dataset/special.h"

#include <algorithm>

#include "base/error.h"
#include "dataset/epilogue.h"
#include "dataset/family_file.h"

namespace tritonforge::dataset {
const std::vector<Special>& all_specials() {
  static const std::vector<Special> specials = parse_family_files(family_files);
  return specials;
}

const Special* find_special(std::string_view name) {
  for (const auto& special : all_specials()) {
    if (special.name == name) return &special;
  }
  return nullptr;
}

SpecialDraw draw_special(const Special& special, Rng& rng) {
  SpecialDraw draw;
  draw.families.emplace_back(special.name);
  std::vector<std::pair<std::string_view, std::string>> values;
  for (const auto& [name, alternatives] : special.choices) {
    values.emplace_back(name, alternatives[rng.below(alternatives.size())]);
  }
  std::vector<EpilogueStep> epilogue;
  if (special.max_epilogue > 0) {
    const size_t lengths = special.max_epilogue - special.min_epilogue + 1;
    epilogue = draw_epilogue(special.min_epilogue + rng.below(lengths), {-5, 5}, rng);
  }
  for (const auto& step : epilogue) draw.families.emplace_back(step.op->name);

  const auto value_of = [&](std::string_view name) {
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    TF_CHECK(found != values.end(), "family {} has no choice {}", special.name, name);
    return found->second;
  };
  draw.problem = fill_placeholders(with_torch_epilogue(special.problem, epilogue), value_of);
  draw.solution = fill_placeholders(with_triton_epilogue(special.solution, epilogue), value_of);
  // The old form of super() names its class; a model that copies it from the problem names one that is not there.
  const std::string_view old_form = "super(Model, self)";
  if (const size_t at = draw.solution.find(old_form); at != std::string::npos) {
    draw.solution.replace(at, old_form.size(), "super(ModelNew, self)");
  }
  return draw;
}

}  // namespace tritonforge::dataset
