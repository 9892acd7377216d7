#include "dataset/mistakes.h"

#include <algorithm>
#include <regex>

namespace tritonforge::dataset {
namespace {

// A mistake is one replacement of what a pattern finds. `with` is a format of std::regex_replace.
struct Kind {
  std::string_view name;
  std::regex pattern;
  std::string with;
};

// clang-format off
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> made = [] {
    const auto kind = [](std::string_view name, const char* pattern, std::string with) {
      return Kind{name, std::regex(pattern, std::regex::ECMAScript | std::regex::optimize), std::move(with)};
    };
    return std::vector<Kind>{
        // Compiles and runs, and is wrong.
        kind("load_without_mask", R"((tl\.load\([^\n]*?), mask=[^\n]*, other=[^\n()]*(\([^()]*\))?\))", "$1)"),
        kind("store_without_mask", R"((tl\.store\([^\n]*), mask=[^\n]*\))", "$1)"),
        kind("wrong_neutral_value", R"(other=-?float\("inf"\))", "other=0.0"),
        kind("wrong_neutral_value", R"(tl\.full\(([^\n]*), -?float\("inf"\),)", "tl.full($1, 0.0,"),
        kind("overwritten_accumulator", R"((acc|total|squares|spread|up|gate) \+= )", "$1 = "),
        kind("blocks_cut_off", R"(triton\.cdiv\(([\w.()]+), (\w+)\))", "$1 // $2"),
        kind("one_block_only", R"(range\(0, (\w+), (BLOCK\w*|ROWS)\))", "range(0, $2, $2)"),
        kind("divided_by_the_block", R"( / (n_cols|M|T|D|K|n|size|pixels)\b)", " / BLOCK"),
        kind("wrong_stride", R"((row|rows\[:, None\]|row \+ i\)|plane) \* (n_cols|N|K|W|D)\b)", "$1 * ($2 - 1)"),
        kind("wrong_comparison", R"((cols|rows|offsets|at|keys|inner)(\[[^\]]*\])? < )", "$1$2 <= "),
        kind("forgotten_shift_of_softmax", R"(tl\.exp\((\w+) - tl\.max\((\w+), axis=0\)(\[None, :\])?\))",
             "tl.exp($1 - tl.min($2, axis=0)$3)"),
        kind("forgotten_root", R"(tl\.sqrt\()", "("),
        kind("maximum_for_minimum", R"(tl\.(max|maximum)\()", "tl.sum("),
        kind("wrong_program_axis", R"(tl\.program_id\(1\))", "tl.program_id(0)"),
        kind("wrong_sign", R"( - (mean|top|new_top|tl\.max)\b)", " + $1"),
        kind("lost_scale", R"( \* (scale|factor|shrink)\b)", ""),
        // Is refused by the compiler.
        kind("not_constexpr", R"((\b[A-Z_]+): tl\.constexpr)", "$1"),
        kind("no_power_of_two", R"(triton\.next_power_of_2\(([^()]*)\))", "$1 + 1"),
        kind("torch_in_kernel", R"(tl\.(exp|sqrt|maximum|minimum|where|abs|sum|zeros)\()", "torch.$1("),
        kind("function_that_is_none", R"(tl\.(sum|max)\(([^\n]*axis=))", "tl.reduce_$1($2"),
        kind("function_that_is_none", R"(tl\.sigmoid\()", "tl.logistic("),
        kind("function_that_is_none", R"(tl\.(exp|log)\()", "tl.math_$1("),
        kind("wrong_axis", R"(axis=0)", "axis=1"),
        kind("no_broadcast", R"(\[:, None\])", ""),
        kind("not_transposed", R"(tl\.trans\((\w+)\))", "$1"),
        kind("undefined_name", R"(\b(x|out|w|weight)_ptr \+)", "$1_pointer +"),
        kind("missing_dtype_module", R"(dtype=tl\.float32)", "dtype=float32"),
        // Fails when it is launched or before.
        kind("missing_argument", R"((_kernel\[[^\n]*\]\([^\n]*), \w+=[^\n,]*\))", "$1)"),
        kind("wrong_shape", R"(torch\.empty_like\((\w+)\))", "torch.empty($1.shape[0], device=$1.device)"),
        kind("grid_is_no_tuple", R"(_kernel\[\(([^\n\[\]]*),\)\])", "_kernel[$1]"),
        kind("forgot_self", R"(self\.(\w+)(,|\)))", "$1$2"),
        kind("syntax", R"((\)|:)\n)", "\n"),
    };
  }();
  return made;
}
// clang-format on

// A call of one of several parts is left out of forward().
std::optional<std::string> without_a_part(const std::string& solution, Rng& rng) {
  const size_t forward = solution.rfind("    def forward(");
  static const std::regex call(R"(\n        x = \w+\(x[^\n]*)");
  std::vector<std::pair<size_t, size_t>> calls;
  for (std::sregex_iterator at(solution.begin() + static_cast<ptrdiff_t>(forward), solution.end(), call), end;
       at != end; ++at) {
    calls.emplace_back(forward + static_cast<size_t>(at->position()), static_cast<size_t>(at->length()));
  }
  if (calls.size() < 2) return std::nullopt;
  const auto [at, size] = calls[rng.below(calls.size())];
  return std::string(solution).erase(at, size);
}

}  // namespace

std::vector<std::string_view> kinds_of_mistakes() {
  std::vector<std::string_view> names{"lost_part"};
  for (const auto& kind : kinds()) names.push_back(kind.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<Mistake> spoil(const std::string& solution, Rng& rng) {
  if (solution.find("    def forward(") == std::string::npos) return std::nullopt;
  for (int tries = 0; tries < 60; ++tries) {
    const size_t draw = rng.below(kinds().size() + 1);
    if (draw == kinds().size()) {
      if (auto source = without_a_part(solution, rng)) return Mistake{"lost_part", *std::move(source)};
      continue;
    }
    const Kind& kind = kinds()[draw];
    std::vector<std::smatch> found(std::sregex_iterator(solution.begin(), solution.end(), kind.pattern),
                                   std::sregex_iterator());
    if (found.empty()) continue;
    const std::smatch& match = found[rng.below(found.size())];
    std::string source = solution.substr(0, static_cast<size_t>(match.position())) + match.format(kind.with) +
                         solution.substr(static_cast<size_t>(match.position() + match.length()));
    if (source != solution) return Mistake{std::string(kind.name), std::move(source)};
  }
  return std::nullopt;
}

}  // namespace tritonforge::dataset
