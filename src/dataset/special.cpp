#include "dataset/special.h"

#include "dataset/operators.h"

namespace tritonforge::dataset {
namespace {

constexpr std::string_view kHead = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n";
constexpr std::string_view kTritonHead =
    "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n";

struct Epilogue {
  const Operator* op;
  std::string c, d;
};

// Element-wise families without operand that stay honest from [-5, 5] on.
std::vector<Epilogue> draw_epilogue(size_t length, Rng& rng) {
  std::vector<Epilogue> chain;
  Range range{-5, 5};
  const auto families = taught_operators();
  for (int tries = 0; chain.size() < length && tries < 100; ++tries) {
    const auto* op = families[rng.below(families.size())];
    if (op->operand != Operand::kNone || op->tail != Tail::kNone || !op->domain.contains(range)) continue;
    const Epilogue step{op, op->has_c() ? draw_constant(op->c, rng) : "", op->has_d() ? draw_constant(op->d, rng) : ""};
    const auto image = image_of(*op, range, {}, number_of(step.c), number_of(step.d));
    if (!image.changes || !Range{-100, 100}.contains(image.range)) continue;
    range = image.range;
    chain.push_back(step);
  }
  return chain;
}

}  // namespace

const std::vector<Special>& all_specials() {
  static const std::vector<Special> specials = [] {
    auto all = kernel_specials();
    for (auto& layer : layer_specials()) all.push_back(std::move(layer));
    return all;
  }();
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
  for (const auto& [key, choices] : special.choices)
    values.emplace_back(key, std::string(choices[rng.below(choices.size())]));
  std::string in_torch, in_kernel;
  if (special.problem.find("{epilogue}") != std::string::npos) {
    for (const auto& [op, c, d] : draw_epilogue(special.min_epilogue + rng.below(3), rng)) {
      draw.families.emplace_back(op->name);
      in_torch += "        out = " + fill(op->torch, {{"x", "out"}, {"c", c}, {"d", d}}) + "\n";
      for (const auto text : op->triton)
        in_kernel += "    " + fill(text, {{"x", std::string(special.value)}, {"c", c}, {"d", d}}) + "\n";
    }
  }
  values.emplace_back("epilogue", in_torch);
  draw.problem = std::string(kHead) + fill(special.problem, values);
  values.back().second = in_kernel;
  draw.solution = std::string(kTritonHead) + fill(special.solution, values);
  // The old form of super() names its class; a model that copies it from the problem names one that is not there.
  const std::string_view old_form = "super(Model, self)";
  if (const size_t at = draw.solution.find(old_form); at != std::string::npos)
    draw.solution.replace(at, old_form.size(), "super(ModelNew, self)");
  return draw;
}

}  // namespace tritonforge::dataset
