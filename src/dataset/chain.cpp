#include "dataset/chain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "dataset/epilogue.h"

namespace tritonforge::dataset {
namespace {

template <typename T>
const T& pick(const std::vector<T>& from, Rng& rng) {
  TF_CHECK(!from.empty(), "nothing to pick from");
  return from[rng.below(from.size())];
}

struct Size {
  std::string_view name;
  std::vector<int> values;
};

// Of the input, by axis. Small: every pair is computed on a CPU before it is written.
const std::vector<Size>& sizes_of(Form form) {
  static const std::vector<Size> rows{{"batch_size", {16, 32, 50, 64, 100, 128}},
                                      {"features", {32, 48, 64, 96, 100, 128, 160, 200, 256}}};
  static const std::vector<Size> images{{"batch_size", {2, 3, 4}},
                                        {"channels", {4, 8, 12, 16}},
                                        {"height", {16, 20, 24, 32}},
                                        {"width", {16, 20, 24, 32}}};
  static const std::vector<Size> sequences{
      {"batch_size", {2, 3, 4}}, {"length", {16, 24, 32, 48, 50, 64}}, {"features", {32, 48, 64, 96}}};
  static const std::vector<Size> signals{
      {"batch_size", {2, 3, 4, 8}}, {"channels", {4, 8, 12, 16}}, {"samples", {32, 48, 64, 100, 128}}};
  static const std::vector<Size> volumes{{"batch_size", {2, 3}},
                                         {"channels", {4, 8, 12}},
                                         {"depth", {8, 10, 12}},
                                         {"height", {8, 12, 16}},
                                         {"width", {8, 12, 16}}};
  switch (form) {
    case Form::kRows: return rows;
    case Form::kImages: return images;
    case Form::kSequences: return sequences;
    case Form::kSignals: return signals;
    case Form::kVolumes: return volumes;
    case Form::kEnd: break;
  }
  fail(ErrorKind::kInternal, "a chain that begins with its end");
}

bool takes(const Part& part, Form form) {
  return std::find(part.takes.begin(), part.takes.end(), form) != part.takes.end();
}

std::vector<const Part*> draw_parts(const std::vector<const Part*>& parts, Form& form, Rng& rng) {
  std::vector<const Part*> chain{pick(parts, rng)};
  form = pick(chain[0]->takes, rng);
  const uint64_t draw = rng.below(20);
  const size_t length = draw < 3 ? 1 : draw < 10 ? 2 : draw < 17 ? 3 : 4;
  for (Form at = chain[0]->gives.value_or(form); chain.size() < length;) {
    std::vector<const Part*> next;
    for (const auto* part : parts) {
      if (!part->first && takes(*part, at) && std::find(chain.begin(), chain.end(), part) == chain.end())
        next.push_back(part);
    }
    if (next.empty()) break;
    chain.push_back(pick(next, rng));
    at = chain.back()->gives.value_or(at);
  }
  return chain;
}

std::string indented(const std::string& text, std::string_view indent) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out.append(indent).append(text, at, end - at);
    out += '\n';
    at = end + 1;
  }
  return out;
}

// The names that lines "name = value" bind, in order.
std::vector<std::string> names_bound_by(const std::string& lines) {
  std::vector<std::string> names;
  for (size_t at = 0; at < lines.size(); at = std::min(lines.find('\n', at), lines.size() - 1) + 1)
    names.push_back(lines.substr(at, lines.find(" = ", at) - at));
  return names;
}

// The texts of a chain, filled and joined.
struct Texts {
  std::string inputs, init, forward, kernels, calls;

  void add(const Part& part, std::string& features, Rng& rng, std::vector<std::string>& families) {
    std::vector<std::pair<std::string, std::string>> values{
        {"NAME", part.name}, {"KERNEL", part.name + "_kernel"}, {"IN", features}};
    for (const auto& [name, alternatives] : part.choices) {
      values.emplace_back(name, pick(alternatives, rng));
      if (name == "OUT") features = values.back().second;
    }
    std::vector<EpilogueStep> epilogue;
    if (part.max_epilogue > 0) {
      const size_t lengths = part.max_epilogue - part.min_epilogue + 1;
      epilogue = draw_epilogue(part.min_epilogue + rng.below(lengths), part.bounds, rng);
    }
    families.push_back(part.name);
    for (const auto& step : epilogue) families.emplace_back(step.op->name);

    const auto value_of = [&](std::string_view name) {
      const auto found = std::find_if(values.begin(), values.end(),
                                      [&](const auto& entry) { return entry.first == name; });
      TF_CHECK(found != values.end(), "part {} has no choice {}", part.name, name);
      return found->second;
    };
    inputs += fill_placeholders(part.inputs, value_of);
    init += fill_placeholders(part.init, value_of);
    forward += fill_placeholders(with_torch_epilogue(part.forward, epilogue), value_of);
    kernels += fill_placeholders(with_triton_epilogue(part.kernel, epilogue), value_of) + "\n\n";
    calls += fill_placeholders(part.call, value_of);
  }
};

}  // namespace

SpecialDraw draw_chain(const std::vector<const Part*>& parts, Rng& rng, const Part* only) {
  // Which parts, of what sizes.
  Form form{};
  const auto chain = draw_parts(only != nullptr ? std::vector{only} : parts, form, rng);
  std::vector<std::string> sizes, axes;
  for (const auto& [name, values] : sizes_of(form)) {
    sizes.push_back(fmt::format("{} = {}", name, pick(values, rng)));
    axes.emplace_back(name);
  }
  const std::string features = form == Form::kRows || form == Form::kSequences ? "features" : "channels";

  // Their texts.
  SpecialDraw draw;
  Texts texts;
  std::string width = features;
  for (const auto* part : chain) texts.add(*part, width, rng, draw.families);
  auto names = names_bound_by(texts.inputs);
  names.insert(names.begin(), "x");
  const bool sized = texts.init.find(features) != std::string::npos;
  const auto module = [&](std::string_view name, const std::string& forward) {
    return fmt::format(
        "class {}(nn.Module):\n    def __init__(self{}):\n        super().__init__()\n{}\n"
        "    def forward(self, {}):\n{}        return x\n",
        name, sized ? ", " + features : "", indented(texts.init, "        "), fmt::join(names, ", "),
        indented(forward, "        "));
  };

  // Problem and solution.
  draw.problem = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n" +
                 module("Model", texts.forward) + fmt::format("\n\n{}\n\n\n", fmt::join(sizes, "\n"));
  draw.problem += "def get_inputs():\n" + indented(texts.inputs, "    ");
  names[0] = fmt::format("torch.randn({})", fmt::join(axes, ", "));
  draw.problem += fmt::format("    return [{}]\n\n\ndef get_init_inputs():\n    return [{}]\n", fmt::join(names, ", "),
                              sized ? features : "");
  names[0] = "x";
  const bool maths = texts.kernels.find("math.") != std::string::npos;
  draw.solution = fmt::format(
      "{}import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n{}{}",
      maths ? "import math\n\n" : "", texts.kernels, module("ModelNew", texts.calls));
  return draw;
}

}  // namespace tritonforge::dataset
