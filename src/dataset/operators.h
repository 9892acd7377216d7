#pragma once
// The operator families that generated problems are composed of: one table (operators.cpp), one entry a family. An
// entry says how the family is written in PyTorch and in Triton and where its numbers are honest; everything else
// (layouts, loads, names, wrappers, wrong variants, verification) follows from it. To add a family, add an entry.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace tritonforge::dataset {

struct Range {
  double low = 0, high = 0;
  bool contains(const Range& other) const { return low <= other.low && other.high <= high; }
};

enum class Operand {
  kNone,       // f(x)
  kSame,       // f(x, y): y has x's shape
  kRowVector,  // y is (N,), added to every row of a (M, N) x
  kColumn,     // y is (M, 1)
};

enum class Tail {
  kNone,    // element by element
  kReduce,  // (M, N) -> (M,); ends the chain
  kRow,     // (M, N) -> (M, N), but each element depends on its row; ends the chain
};

// Which sets teach the family. The text that a base model is pre-trained on shares no family with the other two.
enum class FamilySet { kCompact, kFull, kCorpus };

// Texts hold {x} (the value so far), {y} (the operand), {c} and {d} (constants), {n} (the row's length), {m} (the mask
// of a row). Triton text is the lines of the kernel, each assigning {x}; in a Tail, {x} beyond the row is undefined on
// entry.
struct Operator {
  std::string_view name;
  FamilySet set = FamilySet::kCompact;
  Operand operand = Operand::kNone;
  Tail tail = Tail::kNone;
  std::string_view torch;
  std::vector<std::string_view> triton;
  double (*value)(double x, double y, double c, double d) = nullptr;  // what it computes; null for a Tail
  Range domain{-200, 200};                                            // of x
  Range c{}, d{};                 // constants are drawn from here, where the text uses them
  bool positive_operand = false;  // y is drawn from [0.5, 1.5]
  int extreme = 0;                // a Tail that picks the row's largest (1) or smallest (-1) value
  bool has_c() const { return torch.find("{c}") != std::string_view::npos; }
  bool has_d() const { return torch.find("{d}") != std::string_view::npos; }
};

std::span<const Operator> all_operators();
// Throws kUsage naming the nearest.
const Operator& find_operator(std::string_view name);
std::vector<const Operator*> operators_of(FamilySet set);
std::vector<const Operator*> taught_operators();  // of the compact and the full set, in this order

// What values the operator gives for x in `x` and y in `y`, by sampling; `changes` is false where it is (almost) the
// identity or a constant there, so that a kernel without it would pass.
struct Image {
  Range range;
  bool changes = true;
};
Image image_of(const Operator& op, const Range& x, const Range& y, double c, double d);

// A constant as it is written, within the range, with one or two decimals; and what it says (0 for "").
std::string draw_constant(const Range& range, Rng& rng);
double number_of(const std::string& constant);

// Replaces {key} by its value; a key that is not given is a bug (TF_CHECK).
std::string fill(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values);

}  // namespace tritonforge::dataset
