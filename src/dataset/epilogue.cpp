#include "dataset/epilogue.h"

#include "dataset/template_file.h"

namespace tritonforge::dataset {
namespace {

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

std::vector<EpilogueStep> draw_epilogue(size_t length, Range range, Rng& rng) {
  std::vector<EpilogueStep> chain;
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

std::string with_torch_epilogue(std::string_view text, const std::vector<EpilogueStep>& epilogue) {
  return with_epilogue(text, epilogue, torch_lines);
}

std::string with_triton_epilogue(std::string_view text, const std::vector<EpilogueStep>& epilogue) {
  return with_epilogue(text, epilogue, triton_lines);
}

}  // namespace tritonforge::dataset
