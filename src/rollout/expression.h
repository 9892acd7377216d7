#pragma once
// Arithmetic over a few named numbers, for rewards written in a recipe:
//   0.3*compiled + 0.5*correct + if(timed, 0.2*ln(speedup), 0)
// Operators: + - * / ^ (right-associative), unary -, comparisons (1 or 0), and / or / not. Functions: ln, exp, sqrt,
// abs, min, max (two or more), clip(x, low, high), if(condition, then, otherwise), which computes only the chosen side.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tritonforge::rollout {

class Expression {
 public:
  // Throws kUsage naming the column and, for an unknown name, the nearest known one. Depth and size are bounded.
  Expression(std::string_view text, const std::vector<std::string>& variables);
  Expression(Expression&&) noexcept;
  Expression& operator=(Expression&&) noexcept;
  ~Expression();
  // `values` in the order of the constructor's variables. May be inf or nan: the caller decides what that means.
  double evaluate(const std::vector<double>& values) const;

  struct Node;

 private:
  std::unique_ptr<Node> root_;
};

}  // namespace tritonforge::rollout
