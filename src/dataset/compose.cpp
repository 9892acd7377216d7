#include "dataset/compose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "dataset/writer.h"

namespace tritonforge::dataset {
namespace {

template <typename T>
const T& pick(const std::vector<T>& from, Rng& rng) {
  TF_CHECK(!from.empty(), "nothing to pick from");
  return from[rng.below(from.size())];
}

struct Input {
  std::string_view draw, offset;
  Range range;
};
const std::vector<Input> kInputs{
    {"torch.randn", "", {-5, 5}}, {"torch.rand", "", {0, 1}}, {"torch.rand", " + 0.5", {0.5, 1.5}}};

double draw_normal(Rng& rng) {  // Box and Muller
  return std::sqrt(-2 * std::log(1 - rng.uniform())) * std::cos(2 * M_PI * rng.uniform());
}

// Whether rows differ in their extreme: after a clamp they all have the same, and any constant would pass.
bool extremes_differ(const std::vector<Step>& steps, const Input& input) {
  constexpr int kRows = 16, kColumns = 64;
  Rng rng(0);
  Range seen{INFINITY, -INFINITY};
  const int sign = steps.back().op->extreme;
  for (int row = 0; row < kRows; ++row) {
    double extreme = -INFINITY;
    for (int column = 0; column < kColumns; ++column) {
      double x = input.range.low < 0 ? draw_normal(rng) : input.range.low + rng.uniform();
      for (size_t i = 0; i + 1 < steps.size(); ++i) {
        const double y = steps[i].op->positive_operand ? 0.5 + rng.uniform() : draw_normal(rng);
        x = steps[i].op->value(x, y, number_of(steps[i].c), number_of(steps[i].d));
      }
      extreme = std::max(extreme, sign * x);
    }
    seen = {std::min(seen.low, extreme), std::max(seen.high, extreme)};
  }
  return seen.high - seen.low > 0.02;
}

// Every operator within its domain, none without effect, nothing too large for the tolerance.
bool honest(const std::vector<Step>& steps, const Input& input) {
  if (steps.back().op->extreme != 0 && !extremes_differ(steps, input)) return false;
  Range x = input.range;
  for (const auto& step : steps) {
    if (!step.op->domain.contains(x)) return false;
    const Range y = step.op->positive_operand ? Range{0.5, 1.5} : Range{-5, 5};
    const auto image = image_of(*step.op, x, y, number_of(step.c), number_of(step.d));
    if (!image.changes || !Range{-200, 200}.contains(image.range)) return false;
    x = image.range;
  }
  return true;
}

std::vector<Step> draw_steps(const std::vector<const Operator*>& families, Rng& rng, const Operator* only) {
  std::vector<const Operator*> plain, tails;
  for (const auto* op : families) (op->tail == Tail::kNone ? plain : tails).push_back(op);
  std::vector<const Operator*> chain;
  if (only != nullptr) {
    chain = {only};
  } else {
    const uint64_t draw = rng.below(20);
    const size_t length = draw < 2 ? 1 : draw < 8 ? 2 : draw < 15 ? 3 : 4;
    const bool with_tail = !tails.empty() && (plain.empty() || rng.below(5) < 2);
    while (chain.size() + with_tail < length && chain.size() < plain.size()) {
      const auto* op = pick(plain, rng);
      if (std::find(chain.begin(), chain.end(), op) == chain.end()) chain.push_back(op);
    }
    if (with_tail) chain.push_back(pick(tails, rng));
  }
  std::vector<Step> steps;
  for (const auto* op : chain) {
    Step step{.op = op};
    if (op->has_c()) step.c = draw_constant(op->c, rng);
    if (op->has_d()) step.d = draw_constant(op->d, rng);
    steps.push_back(step);
  }
  return steps;
}

void replace_first(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

// The lines of the kernel between its loads and its store.
std::vector<std::pair<size_t, size_t>> operator_lines(const std::string& source, const Composition& composition) {
  std::vector<std::pair<size_t, size_t>> lines;
  const std::string begin = "    " + composition.x + " = ";
  for (size_t at = 0; at < source.size();) {
    const size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view line(source.data() + at, end - at);
    if (line.starts_with(begin) && line.find("tl.load") == std::string_view::npos) lines.emplace_back(at, end);
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<std::string> Composition::families() const {
  std::vector<std::string> names;
  for (const auto& step : steps) names.emplace_back(step.op->name);
  return names;
}

bool Composition::knows_rows() const {
  return needs_whole_rows() || std::any_of(steps.begin(), steps.end(), [](const Step& step) {
           return step.op->operand == Operand::kRowVector || step.op->operand == Operand::kColumn;
         });
}

std::string Composition::combo() const { return fmt::format("{}", fmt::join(families(), "+")); }

std::string combo_key(std::vector<std::string> families) {
  std::sort(families.begin(), families.end());
  families.erase(std::unique(families.begin(), families.end()), families.end());
  return fmt::format("{}", fmt::join(families, "+"));
}

std::optional<Composition> draw_composition(PairStyle style, const std::vector<const Operator*>& families, Rng& rng,
                                            const Operator* only) {
  Composition made;
  made.style = style;
  made.look = rng.next();
  made.steps = draw_steps(families, rng, only);

  size_t operands = 0;
  for (const auto& step : made.steps) operands += step.op->operand != Operand::kNone;
  if (operands > 2) return std::nullopt;
  made.rows = made.knows_rows() || rng.below(3) == 0;

  const bool compact = style == PairStyle::kCompact;
  made.x = pick<std::string>(compact ? std::vector<std::string>{"x", "a", "u", "t"}
                                     : std::vector<std::string>{"x", "a", "inp", "hidden", "values"},
                             rng);
  std::vector<std::string> names = compact ? std::vector<std::string>{"y", "b", "v", "w", "s", "z"}
                                           : std::vector<std::string>{"y",     "b",        "other", "weight",
                                                                      "scale", "residual", "gate"};
  for (auto& step : made.steps) {
    if (step.op->operand == Operand::kNone) continue;
    const size_t at = rng.below(names.size());
    step.operand = names[at];
    names.erase(names.begin() + static_cast<ptrdiff_t>(at));
  }

  if (compact) {
    made.n = made.rows ? pick<int64_t>({64, 80, 100, 128, 150, 200, 256}, rng)
                       : pick<int64_t>({500, 1000, 1024, 1500, 2000, 3000, 4096}, rng);
    made.m = pick<int64_t>({8, 12, 16, 20, 32}, rng);
    made.block = pick<int64_t>({256, 512, 1024}, rng);
  } else {
    made.n = made.rows ? pick<int64_t>({256, 500, 768, 1000, 1024, 2048, 4096}, rng)
                       : pick<int64_t>({100000, 1 << 18, 1000000, 1 << 20, 1 << 22}, rng);
    made.m = pick<int64_t>({128, 256, 512, 1000, 1024, 4096}, rng);
    made.block = pick<int64_t>({256, 512, 1024, 2048}, rng);
  }

  const size_t first = rng.below(kInputs.size() + 2);  // randn more often than the others
  for (size_t i = 0; i < kInputs.size(); ++i) {
    const auto& input = kInputs[(std::max<size_t>(first, 2) - 2 + i) % kInputs.size()];
    if (!honest(made.steps, input)) continue;
    made.input = input.draw;
    made.offset = input.offset;
    return made;
  }
  return std::nullopt;
}

std::string problem_source(const Composition& composition) {
  return composition.style == PairStyle::kCompact ? compact_problem(composition) : full_problem(composition);
}

std::string solution_source(const Composition& composition) {
  return composition.style == PairStyle::kCompact ? compact_solution(composition) : full_solution(composition);
}

Mistake draw_mistake(const Composition& composition, const std::vector<const Operator*>& families, Rng& rng) {
  // A line of the right solution to spoil; most mistakes are made there.
  const std::string right = solution_source(composition);
  const auto lines = operator_lines(right, composition);
  TF_CHECK(!lines.empty(), "no operator lines in the solution of {}", composition.combo());
  const auto& [begin, end] = pick(lines, rng);
  const std::string line = right.substr(begin, end - begin);
  // Draws a kind of mistake until one fits this composition.
  for (;;) {
    Composition changed = composition;
    Step& step = changed.steps[rng.below(changed.steps.size())];
    std::string source = right;
    switch (rng.below(7)) {
      case 0: {  // another family of the same shape
        std::vector<const Operator*> others;
        for (const auto* op : families) {
          if (op != step.op && op->operand == step.op->operand && op->tail == step.op->tail &&
              op->has_c() == step.op->has_c() && op->has_d() == step.op->has_d()) {
            others.push_back(op);
          }
        }
        if (others.empty()) continue;
        step.op = pick(others, rng);
        return {"wrong_operator", solution_source(changed)};
      }
      case 1:  // another constant of the same operator
        if (step.c.empty()) continue;
        step.c = draw_constant(step.op->c, rng);
        return {"wrong_constant", solution_source(changed)};
      case 2:  // a step is missing
        if (composition.steps.size() < 2) continue;
        source.erase(begin, end - begin + 1);
        return {"lost_operator", source};
      case 3: {  // the rows' mask or the reduction's
        const size_t at = line.find("tl.where(");
        const size_t comma = at == std::string::npos ? at : line.find(", ", at);
        if (comma == std::string::npos || line.find(" > ") != std::string::npos) continue;
        const size_t last = line.find(", ", comma + 2);
        if (last == std::string::npos) continue;
        const size_t close = line.find(')', last);
        const std::string unmasked = line.substr(0, at) + line.substr(comma + 2, last - comma - 2) +
                                     line.substr(close + 1);
        source.replace(begin, end - begin, unmasked);
        return {"no_mask", source};
      }
      case 4:  // rows addressed by the block's width instead of their own
        if (!composition.rows) continue;
        replace_first(source, "tl.program_id(0) * n", "tl.program_id(0) * B");
        replace_first(source, "row * n_cols", "row * BLOCK_SIZE");
        if (source == right) continue;
        return {"wrong_stride", source};
      case 5: {  // a name that does not exist
        std::string broken = line;
        const size_t at = broken.rfind(composition.x);
        broken.replace(at, composition.x.size(), composition.x + "_");
        source.replace(begin, end - begin, broken);
        return {"undefined_name", source};
      }
      default: {  // a parenthesis is not closed
        const size_t close = line.rfind(')');
        if (close == std::string::npos) continue;
        source.erase(begin + close, 1);
        return {"syntax", source};
      }
    }
  }
}

}  // namespace tritonforge::dataset
