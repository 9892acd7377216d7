#include "dataset/special.h"

#include <algorithm>

#include "base/error.h"
#include "dataset/family_file.h"
#include "dataset/operators.h"

namespace tritonforge::dataset {
namespace {

struct EpilogueStep {
  const Operator* op;
  std::string c, d;
};

// Element-wise families without operand that stay honest from [-5, 5] on.
std::vector<EpilogueStep> draw_epilogue(size_t length, Rng& rng) {
  std::vector<EpilogueStep> chain;
  Range range{-5, 5};
  const auto families = taught_operators();
  for (int tries = 0; chain.size() < length && tries < 100; ++tries) {
    const auto* op = families[rng.below(families.size())];
    if (op->operand != Operand::kNone || op->tail != Tail::kNone || !op->domain.contains(range)) continue;
    EpilogueStep step{op, op->has_c() ? draw_constant(op->c, rng) : "", op->has_d() ? draw_constant(op->d, rng) : ""};
    const auto image = image_of(*op, range, {}, number_of(step.c), number_of(step.d));
    if (!image.changes || !Range{-100, 100}.contains(image.range)) continue;
    range = image.range;
    chain.push_back(std::move(step));
  }
  return chain;
}

std::vector<std::string> torch_lines(const EpilogueStep& step, std::string_view variable) {
  const std::string x(variable);
  return {x + " = " + fill(step.op->torch, {{"x", x}, {"c", step.c}, {"d", step.d}})};
}

std::vector<std::string> triton_lines(const EpilogueStep& step, std::string_view variable) {
  std::vector<std::string> lines;
  for (const auto text : step.op->triton) {
    lines.push_back(fill(text, {{"x", std::string(variable)}, {"c", step.c}, {"d", step.d}}));
  }
  return lines;
}

// `text` with every epilogue line replaced by the statements of `epilogue` on its variable.
template <typename LinesOf>
std::string with_epilogue(std::string_view text, const std::vector<EpilogueStep>& epilogue, LinesOf lines_of) {
  std::string out;
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    const auto line = text.substr(0, size);
    text.remove_prefix(size);
    const auto [indent, variable] = parse_epilogue_line(line);
    if (variable.empty()) {
      out += line;
      continue;
    }
    for (const auto& step : epilogue) {
      for (const auto& statement : lines_of(step, variable)) out.append(indent).append(statement).append("\n");
    }
  }
  return out;
}

}  // namespace

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
    epilogue = draw_epilogue(special.min_epilogue + rng.below(lengths), rng);
  }
  for (const auto& step : epilogue) draw.families.emplace_back(step.op->name);

  const auto value_of = [&](std::string_view name) {
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    TF_CHECK(found != values.end(), "family {} has no choice {}", special.name, name);
    return found->second;
  };
  draw.problem = fill_placeholders(with_epilogue(special.problem, epilogue, torch_lines), value_of);
  draw.solution = fill_placeholders(with_epilogue(special.solution, epilogue, triton_lines), value_of);
  // The old form of super() names its class; a model that copies it from the problem names one that is not there.
  const std::string_view old_form = "super(Model, self)";
  if (const size_t at = draw.solution.find(old_form); at != std::string::npos) {
    draw.solution.replace(at, old_form.size(), "super(ModelNew, self)");
  }
  return draw;
}

}  // namespace tritonforge::dataset
