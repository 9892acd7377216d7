#include "dataset/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

using D = double;
constexpr auto kCompact = FamilySet::kCompact;
constexpr auto kFull = FamilySet::kFull;
constexpr auto kCorpus = FamilySet::kCorpus;
constexpr Range kAny{-200, 200};

D sigmoid(D x) { return 1 / (1 + std::exp(-x)); }
D softplus(D x) { return std::log1p(std::exp(x)); }

// clang-format off
const std::vector<Operator>& table() {
  static const std::vector<Operator> operators{
      // --- compact: what the quickstart teaches -----------------------------------------------------------------
      {.name = "relu", .torch = "torch.relu({x})", .triton = {"{x} = tl.maximum({x}, 0)"},
       .value = [](D x, D, D, D) { return std::max(x, 0.0); }},
      {.name = "exp", .torch = "torch.exp({x})", .triton = {"{x} = tl.exp({x})"},
       .value = [](D x, D, D, D) { return std::exp(x); }, .domain = {-20, 5.2}},
      {.name = "sigmoid", .torch = "torch.sigmoid({x})", .triton = {"{x} = tl.sigmoid({x})"},
       .value = [](D x, D, D, D) { return sigmoid(x); }, .domain = {-30, 30}},
      {.name = "tanh", .torch = "torch.tanh({x})", .triton = {"{x} = 2 * tl.sigmoid(2 * {x}) - 1"},
       .value = [](D x, D, D, D) { return std::tanh(x); }, .domain = {-30, 30}},
      {.name = "abs", .torch = "torch.abs({x})", .triton = {"{x} = tl.abs({x})"},
       .value = [](D x, D, D, D) { return std::abs(x); }},
      {.name = "neg", .torch = "-{x}", .triton = {"{x} = -{x}"},
       .value = [](D x, D, D, D) { return -x; }},
      {.name = "square", .torch = "torch.square({x})", .triton = {"{x} = {x} * {x}"},
       .value = [](D x, D, D, D) { return x * x; }},
      {.name = "sqrt", .torch = "torch.sqrt({x})", .triton = {"{x} = tl.sqrt({x})"},
       .value = [](D x, D, D, D) { return std::sqrt(x); }, .domain = {0, 200}},
      {.name = "log", .torch = "torch.log({x})", .triton = {"{x} = tl.log({x})"},
       .value = [](D x, D, D, D) { return std::log(x); }, .domain = {1e-3, 200}},
      {.name = "sin", .torch = "torch.sin({x})", .triton = {"{x} = tl.sin({x})"},
       .value = [](D x, D, D, D) { return std::sin(x); }, .domain = {-50, 50}},
      {.name = "cos", .torch = "torch.cos({x})", .triton = {"{x} = tl.cos({x})"},
       .value = [](D x, D, D, D) { return std::cos(x); }, .domain = {-50, 50}},
      {.name = "silu", .torch = "F.silu({x})", .triton = {"{x} = {x} * tl.sigmoid({x})"},
       .value = [](D x, D, D, D) { return x * sigmoid(x); }, .domain = {-30, 100}},
      {.name = "softplus", .torch = "F.softplus({x})", .triton = {"{x} = tl.log(1 + tl.exp({x}))"},
       .value = [](D x, D, D, D) { return softplus(x); }, .domain = {-15, 19}},
      {.name = "leaky_relu", .torch = "F.leaky_relu({x}, {c})", .triton = {"{x} = tl.where({x} > 0, {x}, {x} * {c})"},
       .value = [](D x, D, D c, D) { return x > 0 ? x : c * x; }, .c = {0.05, 0.45}},
      {.name = "add_scalar", .torch = "{x} + {c}", .triton = {"{x} = {x} + {c}"},
       .value = [](D x, D, D c, D) { return x + c; }, .c = {0.2, 3}},
      {.name = "mul_scalar", .torch = "{x} * {c}", .triton = {"{x} = {x} * {c}"},
       .value = [](D x, D, D c, D) { return x * c; }, .c = {0.2, 3}},
      {.name = "clamp", .torch = "torch.clamp({x}, {c}, {d})", .triton = {"{x} = tl.minimum(tl.maximum({x}, {c}), {d})"},
       .value = [](D x, D, D c, D d) { return std::min(std::max(x, c), d); }, .c = {-1.5, 0.3}, .d = {0.5, 2.5}},
      {.name = "add", .operand = Operand::kSame, .torch = "{x} + {y}", .triton = {"{x} = {x} + {y}"},
       .value = [](D x, D y, D, D) { return x + y; }},
      {.name = "sub", .operand = Operand::kSame, .torch = "{x} - {y}", .triton = {"{x} = {x} - {y}"},
       .value = [](D x, D y, D, D) { return x - y; }},
      {.name = "mul", .operand = Operand::kSame, .torch = "{x} * {y}", .triton = {"{x} = {x} * {y}"},
       .value = [](D x, D y, D, D) { return x * y; }},
      {.name = "maximum", .operand = Operand::kSame, .torch = "torch.maximum({x}, {y})", .triton = {"{x} = tl.maximum({x}, {y})"},
       .value = [](D x, D y, D, D) { return std::max(x, y); }},
      {.name = "minimum", .operand = Operand::kSame, .torch = "torch.minimum({x}, {y})", .triton = {"{x} = tl.minimum({x}, {y})"},
       .value = [](D x, D y, D, D) { return std::min(x, y); }},
      {.name = "row_add", .operand = Operand::kRowVector, .torch = "{x} + {y}", .triton = {"{x} = {x} + {y}"},
       .value = [](D x, D y, D, D) { return x + y; }},
      {.name = "row_mul", .operand = Operand::kRowVector, .torch = "{x} * {y}", .triton = {"{x} = {x} * {y}"},
       .value = [](D x, D y, D, D) { return x * y; }},
      {.name = "col_mul", .operand = Operand::kColumn, .torch = "{x} * {y}", .triton = {"{x} = {x} * {y}"},
       .value = [](D x, D y, D, D) { return x * y; }},
      {.name = "row_sum", .tail = Tail::kReduce, .torch = "torch.sum({x}, 1)",
       .triton = {"{x} = tl.sum(tl.where({m}, {x}, 0), 0)"}},
      {.name = "row_mean", .tail = Tail::kReduce, .torch = "torch.mean({x}, 1)",
       .triton = {"{x} = tl.sum(tl.where({m}, {x}, 0), 0) / {n}"}},
      {.name = "row_max", .tail = Tail::kReduce, .torch = "torch.amax({x}, 1)",
       .triton = {"{x} = tl.max(tl.where({m}, {x}, -1e9), 0)"}, .extreme = 1},
      {.name = "row_min", .tail = Tail::kReduce, .torch = "torch.amin({x}, 1)",
       .triton = {"{x} = tl.min(tl.where({m}, {x}, 1e9), 0)"}, .extreme = -1},
      {.name = "softmax", .tail = Tail::kRow, .torch = "torch.softmax({x}, 1)",
       .triton = {"{x} = tl.where({m}, {x}, -1e9)", "{x} = tl.exp({x} - tl.max({x}, 0))", "{x} = {x} / tl.sum({x}, 0)"}},
      {.name = "rms_norm", .tail = Tail::kRow, .torch = "F.rms_norm({x}, {x}.shape[1:], eps=1e-5)",
       .triton = {"{x} = tl.where({m}, {x}, 0)", "{x} = {x} * tl.rsqrt(tl.sum({x} * {x}, 0) / {n} + 1e-5)"}},
      {.name = "layer_norm", .tail = Tail::kRow, .torch = "F.layer_norm({x}, {x}.shape[1:])",
       .triton = {"{x} = tl.where({m}, {x}, 0)", "{x} = tl.where({m}, {x} - tl.sum({x}, 0) / {n}, 0)",
                  "{x} = {x} * tl.rsqrt(tl.sum({x} * {x}, 0) / {n} + 1e-5)"}},

      // --- full: more families for real models ------------------------------------------------------------------
      {.name = "gelu", .set = kFull, .torch = "F.gelu({x})", .triton = {"{x} = 0.5 * {x} * (1 + tl.erf({x} * 0.7071067811865476))"},
       .value = [](D x, D, D, D) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }},
      {.name = "elu", .set = kFull, .torch = "F.elu({x})", .triton = {"{x} = tl.where({x} > 0, {x}, tl.exp({x}) - 1)"},
       .value = [](D x, D, D, D) { return x > 0 ? x : std::exp(x) - 1; }, .domain = {-20, 80}},
      {.name = "selu", .set = kFull, .torch = "F.selu({x})",
       .triton = {"{x} = 1.0507009873554805 * tl.where({x} > 0, {x}, 1.6732632423543772 * (tl.exp({x}) - 1))"},
       .value = [](D x, D, D, D) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (std::exp(x) - 1)); }, .domain = {-20, 80}},
      {.name = "logsigmoid", .set = kFull, .torch = "F.logsigmoid({x})", .triton = {"{x} = tl.minimum({x}, 0) - tl.log(1 + tl.exp(-tl.abs({x})))"},
       .value = [](D x, D, D, D) { return -softplus(-x); }, .domain = {-15, 15}},
      {.name = "div", .set = kFull, .operand = Operand::kSame, .torch = "{x} / {y}", .triton = {"{x} = {x} / {y}"},
       .value = [](D x, D y, D, D) { return x / y; }, .positive_operand = true},
      {.name = "lerp", .set = kFull, .operand = Operand::kSame, .torch = "torch.lerp({x}, {y}, {c})", .triton = {"{x} = {x} + {c} * ({y} - {x})"},
       .value = [](D x, D y, D c, D) { return x + c * (y - x); }, .c = {0.1, 0.9}},
      {.name = "axpy", .set = kFull, .operand = Operand::kSame, .torch = "torch.add({x}, {y}, alpha={c})", .triton = {"{x} = {x} + {c} * {y}"},
       .value = [](D x, D y, D c, D) { return x + c * y; }, .c = {0.2, 3}},
      {.name = "squared_difference", .set = kFull, .operand = Operand::kSame, .torch = "({x} - {y}) ** 2", .triton = {"{x} = ({x} - {y}) * ({x} - {y})"},
       .value = [](D x, D y, D, D) { return (x - y) * (x - y); }, .domain = {-10, 10}},
      {.name = "row_div", .set = kFull, .operand = Operand::kRowVector, .torch = "{x} / {y}", .triton = {"{x} = {x} / {y}"},
       .value = [](D x, D y, D, D) { return x / y; }, .positive_operand = true},
      {.name = "col_add", .set = kFull, .operand = Operand::kColumn, .torch = "{x} + {y}", .triton = {"{x} = {x} + {y}"},
       .value = [](D x, D y, D, D) { return x + y; }},
      {.name = "col_sub", .set = kFull, .operand = Operand::kColumn, .torch = "{x} - {y}", .triton = {"{x} = {x} - {y}"},
       .value = [](D x, D y, D, D) { return x - y; }},
      {.name = "log_softmax", .set = kFull, .tail = Tail::kRow, .torch = "torch.log_softmax({x}, 1)",
       .triton = {"{x} = tl.where({m}, {x}, -1e9)", "{x} = {x} - tl.max({x}, 0)", "{x} = {x} - tl.log(tl.sum(tl.exp({x}), 0))"}},
      {.name = "l2_normalize", .set = kFull, .tail = Tail::kRow, .torch = "F.normalize({x}, dim=1)",
       .triton = {"{x} = tl.where({m}, {x}, 0)", "{x} = {x} / tl.maximum(tl.sqrt(tl.sum({x} * {x}, 0)), 1e-12)"}},
      {.name = "row_norm", .set = kFull, .tail = Tail::kReduce, .torch = "torch.linalg.vector_norm({x}, dim=1)",
       .triton = {"{x} = tl.where({m}, {x}, 0)", "{x} = tl.sqrt(tl.sum({x} * {x}, 0))"}},
      {.name = "row_var", .set = kFull, .tail = Tail::kReduce, .torch = "torch.var({x}, 1, correction=0)",
       .triton = {"{x} = tl.where({m}, {x}, 0)", "{x} = tl.where({m}, {x} - tl.sum({x}, 0) / {n}, 0)", "{x} = tl.sum({x} * {x}, 0) / {n}"}},
      {.name = "logsumexp", .set = kFull, .tail = Tail::kReduce, .torch = "torch.logsumexp({x}, 1)",
       .triton = {"{x} = tl.where({m}, {x}, -1e9)", "{x} = tl.max({x}, 0) + tl.log(tl.sum(tl.exp({x} - tl.max({x}, 0)), 0))"}},

      // --- corpus: what a base model reads before it is taught; no family of the two sets above -------------------
      {.name = "hardswish", .set = kCorpus, .torch = "F.hardswish({x})", .triton = {"{x} = {x} * tl.minimum(tl.maximum({x} + 3, 0), 6) / 6"},
       .value = [](D x, D, D, D) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {.name = "hardsigmoid", .set = kCorpus, .torch = "F.hardsigmoid({x})", .triton = {"{x} = tl.minimum(tl.maximum({x} + 3, 0), 6) / 6"},
       .value = [](D x, D, D, D) { return std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
      {.name = "relu6", .set = kCorpus, .torch = "F.relu6({x})", .triton = {"{x} = tl.minimum(tl.maximum({x}, 0), 6)"},
       .value = [](D x, D, D, D) { return std::min(std::max(x, 0.0), 6.0); }},
      {.name = "softsign", .set = kCorpus, .torch = "F.softsign({x})", .triton = {"{x} = {x} / (1 + tl.abs({x}))"},
       .value = [](D x, D, D, D) { return x / (1 + std::abs(x)); }},
      {.name = "erf", .set = kCorpus, .torch = "torch.erf({x})", .triton = {"{x} = tl.erf({x})"},
       .value = [](D x, D, D, D) { return std::erf(x); }},
      {.name = "exp2", .set = kCorpus, .torch = "torch.exp2({x})", .triton = {"{x} = tl.exp2({x})"},
       .value = [](D x, D, D, D) { return std::exp2(x); }, .domain = {-20, 7}},
      {.name = "log2", .set = kCorpus, .torch = "torch.log2({x})", .triton = {"{x} = tl.log2({x})"},
       .value = [](D x, D, D, D) { return std::log2(x); }, .domain = {1e-3, 200}},
      {.name = "rsqrt", .set = kCorpus, .torch = "torch.rsqrt({x})", .triton = {"{x} = tl.rsqrt({x})"},
       .value = [](D x, D, D, D) { return 1 / std::sqrt(x); }, .domain = {0.01, 200}},
      {.name = "reciprocal", .set = kCorpus, .torch = "torch.reciprocal({x})", .triton = {"{x} = 1 / {x}"},
       .value = [](D x, D, D, D) { return 1 / x; }, .domain = {0.05, 200}},
      {.name = "cube", .set = kCorpus, .torch = "torch.pow({x}, 3)", .triton = {"{x} = {x} * {x} * {x}"},
       .value = [](D x, D, D, D) { return x * x * x; }},
      {.name = "hardshrink", .set = kCorpus, .torch = "F.hardshrink({x}, {c})", .triton = {"{x} = tl.where(tl.abs({x}) > {c}, {x}, 0)"},
       .value = [](D x, D, D c, D) { return std::abs(x) > c ? x : 0; }, .c = {0.2, 1}},
      {.name = "sub_scalar", .set = kCorpus, .torch = "{x} - {c}", .triton = {"{x} = {x} - {c}"},
       .value = [](D x, D, D c, D) { return x - c; }, .c = {0.2, 3}},
      {.name = "div_scalar", .set = kCorpus, .torch = "{x} / {c}", .triton = {"{x} = {x} / {c}"},
       .value = [](D x, D, D c, D) { return x / c; }, .c = {0.5, 4}},
      {.name = "mean_of_two", .set = kCorpus, .operand = Operand::kSame, .torch = "0.5 * ({x} + {y})", .triton = {"{x} = 0.5 * ({x} + {y})"},
       .value = [](D x, D y, D, D) { return 0.5 * (x + y); }},
      {.name = "hypot", .set = kCorpus, .operand = Operand::kSame, .torch = "torch.hypot({x}, {y})", .triton = {"{x} = tl.sqrt({x} * {x} + {y} * {y})"},
       .value = [](D x, D y, D, D) { return std::hypot(x, y); }},
      {.name = "where_greater", .set = kCorpus, .operand = Operand::kSame, .torch = "torch.where({x} > {y}, {x}, {c})", .triton = {"{x} = tl.where({x} > {y}, {x}, {c})"},
       .value = [](D x, D y, D c, D) { return x > y ? x : c; }, .c = {0.1, 2}},
      {.name = "row_sub", .set = kCorpus, .operand = Operand::kRowVector, .torch = "{x} - {y}", .triton = {"{x} = {x} - {y}"},
       .value = [](D x, D y, D, D) { return x - y; }},
      {.name = "row_sum_abs", .set = kCorpus, .tail = Tail::kReduce, .torch = "torch.linalg.vector_norm({x}, ord=1, dim=1)",
       .triton = {"{x} = tl.sum(tl.where({m}, tl.abs({x}), 0), 0)"}},
      {.name = "center_rows", .set = kCorpus, .tail = Tail::kRow, .torch = "{x} - {x}.mean(1, keepdim=True)",
       .triton = {"{x} = {x} - tl.sum(tl.where({m}, {x}, 0), 0) / {n}"}},
  };
  return operators;
}
// clang-format on

}  // namespace

std::span<const Operator> all_operators() { return table(); }

const Operator& find_operator(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& op : table()) {
    if (op.name == name) return op;
    known.emplace_back(op.name);
  }
  fail(ErrorKind::kUsage, "unknown operator family '{}'{}", name, nearest_hint(name, known));
}

std::vector<const Operator*> operators_of(FamilySet set) {
  std::vector<const Operator*> found;
  for (const auto& op : table()) {
    if (op.set == set) found.push_back(&op);
  }
  return found;
}

std::vector<const Operator*> taught_operators() {
  auto found = operators_of(FamilySet::kCompact);
  for (const auto* op : operators_of(FamilySet::kFull)) found.push_back(op);
  return found;
}

Image image_of(const Operator& op, const Range& x, const Range& y, double c, double d) {
  if (op.tail != Tail::kNone) return {{-200, 200}, true};
  constexpr int kSteps = 48;
  const auto at = [](const Range& range, int i) { return range.low + (range.high - range.low) * i / kSteps; };
  Range out{INFINITY, -INFINITY};
  double difference = 0;
  int changed = 0, total = 0;
  for (int i = 0; i <= kSteps; ++i) {
    for (int j = 0; j <= (op.operand == Operand::kNone ? 0 : kSteps); ++j, ++total) {
      const double input = at(x, i);
      const double value = op.value(input, at(y, j), c, d);
      out = {std::min(out.low, value), std::max(out.high, value)};
      difference = std::max(difference, std::abs(value - input));
      changed += std::abs(value - input) > 1e-2;
    }
  }
  const bool varies = out.high - out.low > 0.1;
  return {out, varies && difference > 0.05 && changed * 20 > total};
}

std::string fill(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at);
    if (open == std::string_view::npos) return out.append(text.substr(at));
    const size_t close = text.find('}', open);
    TF_CHECK(close != std::string_view::npos, "no '}}' in template: {}", text);
    const auto key = text.substr(open + 1, close - open - 1);
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    TF_CHECK(found != values.end(), "no value for {{{}}} in template: {}", key, text);
    out.append(text.substr(at, open - at)).append(found->second);
    at = close + 1;
  }
  return out;
}

std::string draw_constant(const Range& range, Rng& rng) {
  const double value = range.low + (range.high - range.low) * rng.uniform();
  std::string text = rng.below(3) == 0 ? fmt::format("{:.2f}", value) : fmt::format("{:.1f}", value);
  return text == "-0.0" || text == "-0.00" ? text.substr(1) : text;
}

double number_of(const std::string& constant) { return constant.empty() ? 0 : std::stod(constant); }

}  // namespace tritonforge::dataset
