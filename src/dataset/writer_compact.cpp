#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dataset/writer.h"

namespace tritonforge::dataset {
namespace {

std::vector<std::pair<std::string_view, std::string>> values_of(const Composition& composition, const Step& step) {
  return {{"x", composition.x}, {"y", step.operand}, {"c", step.c}, {"d", step.d}};
}

std::vector<std::string> tensor_names(const Composition& composition) {
  std::vector<std::string> names{composition.x};
  for (const auto& step : composition.steps) {
    if (!step.operand.empty()) names.push_back(step.operand);
  }
  return names;
}

std::string drawn(const Composition& composition, const Step& step) {
  const std::string_view shape = step.op->operand == Operand::kRowVector ? "N"
                                 : step.op->operand == Operand::kColumn  ? "M, 1"
                                 : composition.rows                      ? "M, N"
                                                                         : "N";
  return step.op->positive_operand ? fmt::format("torch.rand({}) + 0.5", shape) : fmt::format("torch.randn({})", shape);
}

}  // namespace

std::vector<std::string> torch_statements(const Composition& composition) {
  std::vector<std::string> lines;
  for (const auto& step : composition.steps) {
    lines.push_back(composition.x + " = " + fill(step.op->torch, values_of(composition, step)));
  }
  return lines;
}

std::vector<std::string> kernel_statements(const Composition& composition, const std::string& mask,
                                           const std::string& row_length) {
  std::vector<std::string> lines;
  for (const auto& step : composition.steps) {
    auto values = values_of(composition, step);
    values.emplace_back("m", mask);
    values.emplace_back("n", row_length);
    for (const auto text : step.op->triton) lines.push_back(fill(text, values));
  }
  return lines;
}

std::string compact_problem(const Composition& composition) {
  std::string forward;
  for (const auto& line : torch_statements(composition)) forward += "        " + line + "\n";
  std::vector<std::string> inputs{
      fmt::format("{}({}){}", composition.input, composition.rows ? "M, N" : "N", composition.offset)};
  for (const auto& step : composition.steps) {
    if (!step.operand.empty()) inputs.push_back(drawn(composition, step));
  }
  return fmt::format(
      "import torch\n{}\n"
      "class Model(torch.nn.Module):\n"
      "    def forward(self, {}):\n"
      "{}"
      "        return {}\n\n"
      "{}N = {}\n\n"
      "def get_inputs():\n"
      "    return [{}]\n\n"
      "def get_init_inputs():\n"
      "    return []\n",
      forward.find("F.") == std::string::npos ? "" : "import torch.nn.functional as F\n",
      fmt::join(tensor_names(composition), ", "), forward, composition.x,
      composition.rows ? fmt::format("M = {}\n", composition.m) : "", composition.n, fmt::join(inputs, ", "));
}

std::string compact_solution(const Composition& composition) {
  const auto names = tensor_names(composition);
  std::string pointers;
  for (const auto& name : names) pointers += name + "_ptr, ";
  std::string body;
  body += composition.rows ? "    i = tl.arange(0, B)\n    r = tl.program_id(0) * n\n"
                           : "    i = tl.program_id(0) * B + tl.arange(0, B)\n";
  const std::string_view whole = composition.rows ? "r + i, i < n" : "i, i < n";
  body += fmt::format("    {0} = tl.load({0}_ptr + {1})\n", composition.x, whole);
  for (const auto& step : composition.steps) {
    if (step.operand.empty()) continue;
    const std::string_view place = step.op->operand == Operand::kRowVector ? "i, i < n"
                                   : step.op->operand == Operand::kColumn  ? "tl.program_id(0)"
                                                                           : whole;
    body += fmt::format("    {0} = tl.load({0}_ptr + {1})\n", step.operand, place);
  }
  for (const auto& line : kernel_statements(composition, "i < n", "n")) body += "    " + line + "\n";
  const std::string& x = composition.x;
  body += composition.reduces() ? fmt::format("    tl.store(out_ptr + tl.program_id(0), {})\n", x)
          : composition.rows    ? fmt::format("    tl.store(out_ptr + r + i, {}, i < n)\n", x)
                                : fmt::format("    tl.store(out_ptr + i, {}, i < n)\n", x);
  const std::string call =
      composition.rows
          ? fmt::format("kernel[({0}.shape[0],)]({1}, out, {0}.shape[1], triton.next_power_of_2({0}.shape[1]))", x,
                        fmt::join(names, ", "))
          : fmt::format("kernel[(triton.cdiv({0}.numel(), {2}),)]({1}, out, {0}.numel(), {2})", x,
                        fmt::join(names, ", "), composition.block);
  return fmt::format(
      "import torch, triton\n"
      "import triton.language as tl\n\n"
      "@triton.jit\n"
      "def kernel({}out_ptr, n, B: tl.constexpr):\n"
      "{}\n"
      "class ModelNew(torch.nn.Module):\n"
      "    def forward(self, {}):\n"
      "        out = {}\n"
      "        {}\n"
      "        return out\n",
      pointers, body, fmt::join(names, ", "),
      composition.reduces() ? x + ".new_empty(" + x + ".shape[0])" : "torch.empty_like(" + x + ")", call);
}

}  // namespace tritonforge::dataset
