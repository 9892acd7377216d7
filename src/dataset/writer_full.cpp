#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dataset/writer.h"

namespace tritonforge::dataset {
namespace {

// What the look decides, named. Each is a function of the composition alone, so that problem and solution agree.
struct Look {
  bool docstring, nested, parameters, wrapper, comments, old_super;
  std::string kernel, block_name, offsets;
  int64_t warps;
};

Look look_of(const Composition& composition) {
  Rng rng(composition.look);
  Look look;
  look.docstring = rng.below(3) != 0;
  look.nested = rng.below(3) == 0;
  look.parameters = rng.below(2) == 0;
  look.wrapper = rng.below(2) == 0;
  look.comments = rng.below(2) == 0;
  const auto families = composition.families();
  look.kernel = rng.below(2) == 0 ? fmt::format("fused_{}_kernel", fmt::join(families, "_"))
                                  : fmt::format("{}_kernel", families.back());
  look.block_name = rng.below(2) == 0 ? "BLOCK_SIZE" : "BLOCK";
  look.offsets = rng.below(2) == 0 ? "offsets" : "offs";
  look.warps = rng.below(2) == 0 ? 4 : 8;
  look.old_super = rng.below(3) == 0;
  return look;
}

std::string shape_of(const Composition& composition, const Step& step) {
  if (step.op->operand == Operand::kRowVector) return "features";
  if (step.op->operand == Operand::kColumn) return "batch_size, 1";
  return composition.rows ? "batch_size, features" : "size";
}

bool is_parameter(const Look& look, const Step& step) {
  return look.parameters && step.op->operand == Operand::kRowVector;
}

std::vector<std::string> forward_names(const Composition& composition, const Look& look) {
  std::vector<std::string> names{composition.x};
  for (const auto& step : composition.steps) {
    if (!step.operand.empty() && !is_parameter(look, step)) names.push_back(step.operand);
  }
  return names;
}

// "torch.relu(x + y)" of the statements "x = x + y", "x = torch.relu(x)".
std::string nested_expression(const Composition& composition, const Look& look) {
  std::string value = composition.x;
  bool atom = true;
  for (const auto& step : composition.steps) {
    const std::string operand = is_parameter(look, step) ? "self." + step.operand : step.operand;
    const bool infix = !step.op->torch.starts_with("torch.") && !step.op->torch.starts_with("F.");
    value = fill(step.op->torch,
                 {{"x", infix && !atom ? "(" + value + ")" : value}, {"y", operand}, {"c", step.c}, {"d", step.d}});
    atom = !infix;
  }
  return value;
}

bool uses_value_twice(const Composition& composition) {
  for (const auto& step : composition.steps) {
    if (step.op->torch.find("{x}") != step.op->torch.rfind("{x}")) return true;
  }
  return false;
}

std::string init_of(const Composition& composition, const Look& look, std::string_view name) {
  std::string parameters;
  for (const auto& step : composition.steps) {
    if (!is_parameter(look, step)) continue;
    const std::string_view draw = step.op->positive_operand ? "torch.rand(features) + 0.5" : "torch.randn(features)";
    parameters += fmt::format("        self.{} = nn.Parameter({})\n", step.operand, draw);
  }
  return fmt::format("    def __init__(self{}):\n        super({}).__init__()\n{}\n",
                     parameters.empty() ? "" : ", features", look.old_super ? fmt::format("{}, self", name) : "",
                     parameters);
}

bool has_parameters(const Composition& composition, const Look& look) {
  for (const auto& step : composition.steps) {
    if (is_parameter(look, step)) return true;
  }
  return false;
}

}  // namespace

std::string full_problem(const Composition& composition) {
  const Look look = look_of(composition);
  std::string source =
      "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n";
  if (look.docstring)
    source += fmt::format("    \"\"\"Applies {} to its input.\"\"\"\n\n", fmt::join(composition.families(), ", then "));
  source += init_of(composition, look, "Model");
  source += fmt::format("    def forward(self, {}):\n", fmt::join(forward_names(composition, look), ", "));
  if (look.nested && !uses_value_twice(composition)) {
    source += "        return " + nested_expression(composition, look) + "\n";
  } else {
    for (const auto& step : composition.steps) {
      const std::string operand = is_parameter(look, step) ? "self." + step.operand : step.operand;
      source += fmt::format("        {} = {}\n", composition.x,
                            fill(step.op->torch, {{"x", composition.x}, {"y", operand}, {"c", step.c}, {"d", step.d}}));
    }
    source += "        return " + composition.x + "\n";
  }
  source += composition.rows ? fmt::format("\n\nbatch_size = {}\nfeatures = {}\n", composition.m, composition.n)
                             : fmt::format("\n\nsize = {}\n", composition.n);
  source += "\n\ndef get_inputs():\n";
  source += fmt::format("    {} = {}({}){}\n", composition.x, composition.input,
                        composition.rows ? "batch_size, features" : "size", composition.offset);
  for (const auto& step : composition.steps) {
    if (step.operand.empty() || is_parameter(look, step)) continue;
    const std::string shape = shape_of(composition, step);
    source += step.op->positive_operand ? fmt::format("    {} = torch.rand({}) + 0.5\n", step.operand, shape)
                                        : fmt::format("    {} = torch.randn({})\n", step.operand, shape);
  }
  source += fmt::format("    return [{}]\n\n\ndef get_init_inputs():\n    return [{}]\n",
                        fmt::join(forward_names(composition, look), ", "),
                        has_parameters(composition, look) ? "features" : "");
  return source;
}

// In style wide a program has a whole row where an operation needs one, else a block of a row where one is told its row
// or column, else a block of all elements: a row may be wider than any block. However many dimensions there are, rows
// are the last one's. Style full, whose sets stay as they were, has whole rows of all that has two dimensions.
std::string full_solution(const Composition& composition) {
  const Look look = look_of(composition);
  const std::string& x = composition.x;
  const std::string& block = look.block_name;
  const bool wide = composition.style == PairStyle::kWide;
  const bool by_rows = wide ? composition.knows_rows() : composition.rows;
  const bool whole_rows = wide ? composition.needs_whole_rows() : composition.rows;
  std::vector<std::string> tensors{x};
  for (const auto& step : composition.steps) {
    if (!step.operand.empty()) tensors.push_back(step.operand);
  }
  std::string source =
      "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\n";
  source += "def " + look.kernel + "(";
  for (const auto& name : tensors) source += name + "_ptr, ";
  source += fmt::format("out_ptr, {}, {}: tl.constexpr):\n", by_rows ? "n_cols" : "n_elements", block);

  const auto comment = [&](std::string_view text) {
    return look.comments ? fmt::format("    # {}\n", text) : std::string();
  };
  std::string place;
  if (by_rows) {
    source += comment(whole_rows ? "one program per row" : "one program per block of a row");
    source += fmt::format("    row = tl.program_id(0)\n    {0} = {2}tl.arange(0, {1})\n    mask = {0} < n_cols\n",
                          look.offsets, block, whole_rows ? "" : fmt::format("tl.program_id(1) * {} + ", block));
    place = "row * n_cols + " + look.offsets;
  } else {
    source += comment("each program covers one block of elements") + "    pid = tl.program_id(0)\n";
    source += fmt::format("    {0} = pid * {1} + tl.arange(0, {1})\n    mask = {0} < n_elements\n", look.offsets,
                          block);
    place = look.offsets;
  }
  source += fmt::format("    {0} = tl.load({0}_ptr + {1}, mask=mask, other=0.0)\n", x, place);
  for (const auto& step : composition.steps) {
    if (step.operand.empty()) continue;
    if (step.op->operand == Operand::kColumn) {
      source += fmt::format("    {0} = tl.load({0}_ptr + row)\n", step.operand);
    } else {
      source += fmt::format("    {0} = tl.load({0}_ptr + {1}, mask=mask, other={2})\n", step.operand,
                            step.op->operand == Operand::kRowVector ? look.offsets : place,
                            step.op->positive_operand ? "1.0" : "0.0");
    }
  }
  for (const auto& step : composition.steps) {
    source += comment(step.op->name);
    for (const auto text : step.op->triton) {
      source += "    " +
                fill(text,
                     {{"x", x}, {"y", step.operand}, {"c", step.c}, {"d", step.d}, {"m", "mask"}, {"n", "n_cols"}}) +
                "\n";
    }
  }
  source += composition.reduces() ? fmt::format("    tl.store(out_ptr + row, {})\n", x)
                                  : fmt::format("    tl.store(out_ptr + {}, {}, mask=mask)\n", place, x);

  // The launch: in a function of its own or in forward.
  const auto launch = [&](const std::vector<std::string>& arguments, std::string_view indent) {
    std::string text;
    const std::string& first = arguments[0];
    if (by_rows) {
      text += wide ? fmt::format("{0}n_cols = {1}.shape[-1]\n{0}n_rows = {1}.numel() // n_cols\n", indent, first)
                   : fmt::format("{0}n_rows, n_cols = {1}.shape\n", indent, first);
      text += composition.reduces() ? fmt::format("{0}out = torch.empty({2}, device={1}.device, dtype={1}.dtype)\n",
                                                  indent, first, wide ? first + ".shape[:-1]" : "n_rows")
                                    : fmt::format("{0}out = torch.empty_like({1})\n", indent, first);
      const std::string width = whole_rows ? "triton.next_power_of_2(n_cols)" : std::to_string(composition.block);
      const std::string grid = whole_rows ? "(n_rows,)" : fmt::format("(n_rows, triton.cdiv(n_cols, {}))", width);
      text += fmt::format("{}{}[{}]({}, out, n_cols, {}={}, num_warps={})\n", indent, look.kernel, grid,
                          fmt::join(arguments, ", "), block, width, look.warps);
    } else {
      text += fmt::format("{0}out = torch.empty_like({1})\n{0}n_elements = out.numel()\n", indent, first);
      text += look.comments
                  ? fmt::format("{0}grid = lambda meta: (triton.cdiv(n_elements, meta[\"{1}\"]),)\n", indent, block)
                  : fmt::format("{0}grid = (triton.cdiv(n_elements, {1}),)\n", indent, composition.block);
      text += fmt::format("{0}{1}[grid]({2}, out, n_elements, {3}={4})\n", indent, look.kernel,
                          fmt::join(arguments, ", "), block, composition.block);
    }
    return text + fmt::format("{}return out\n", indent);
  };
  std::vector<std::string> held = tensors;
  for (size_t i = 0, at = 1; i < composition.steps.size(); ++i) {
    if (composition.steps[i].operand.empty()) continue;
    if (is_parameter(look, composition.steps[i])) held[at] = "self." + held[at];
    ++at;
  }
  if (look.wrapper) {
    source += fmt::format("\n\ndef run({}):\n", fmt::join(tensors, ", "));
    for (const auto& name : tensors) source += fmt::format("    {0} = {0}.contiguous()\n", name);
    source += launch(tensors, "    ");
  }
  source += "\n\nclass ModelNew(nn.Module):\n" + init_of(composition, look, "ModelNew");
  source += fmt::format("    def forward(self, {}):\n", fmt::join(forward_names(composition, look), ", "));
  source += look.wrapper ? fmt::format("        return run({})\n", fmt::join(held, ", ")) : launch(held, "        ");
  return source;
}

}  // namespace tritonforge::dataset
