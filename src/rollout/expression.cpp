#include "rollout/expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>

#include "base/error.h"

namespace tritonforge::rollout {

enum class Op {
  kNumber,
  kVariable,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kPower,
  kNegate,
  kNot,
  kAnd,
  kOr,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kLn,
  kExp,
  kSqrt,
  kAbs,
  kMin,
  kMax,
  kClip,
  kIf
};

struct Expression::Node {
  Op op = Op::kNumber;
  double number = 0;
  size_t variable = 0;
  std::vector<std::unique_ptr<Node>> arguments;
};

namespace {

using Node = Expression::Node;
using NodePtr = std::unique_ptr<Node>;

constexpr size_t kMaxText = 4096;
constexpr int kMaxDepth = 64;

struct Function {
  Op op;
  size_t least, most;
};
const std::map<std::string, Function, std::less<>>& functions() {
  static const std::map<std::string, Function, std::less<>> table = {
      {"ln", {Op::kLn, 1, 1}},    {"exp", {Op::kExp, 1, 1}},  {"sqrt", {Op::kSqrt, 1, 1}}, {"abs", {Op::kAbs, 1, 1}},
      {"min", {Op::kMin, 2, 64}}, {"max", {Op::kMax, 2, 64}}, {"clip", {Op::kClip, 3, 3}}, {"if", {Op::kIf, 3, 3}}};
  return table;
}

class Parser {
 public:
  Parser(std::string_view text, const std::vector<std::string>& variables) : text_(text), variables_(variables) {}

  NodePtr parse() {
    if (text_.size() > kMaxText) wrong("is longer than 4096 characters");
    NodePtr root = disjunction();
    skip_space();
    if (at_ != text_.size()) wrong(fmt::format("expected an operator, found '{}'", text_.substr(at_, 12)));
    return root;
  }

 private:
  // One level of the parser's recursion; a bound on it is a bound on the stack.
  struct Depth {
    explicit Depth(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) parser_.wrong("is nested too deeply");
    }
    ~Depth() { --parser_.depth_; }
    Parser& parser_;
  };

  [[noreturn]] void wrong(const std::string& what) const {
    fail(ErrorKind::kUsage, "reward expression '{}', column {}: {}", text_.substr(0, 120), at_ + 1, what);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    if (std::isalpha(static_cast<unsigned char>(token.back())) != 0) {
      const size_t next = at_ + token.size();
      if (next < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[next])) != 0 || text_[next] == '_'))
        return false;
    }
    at_ += token.size();
    return true;
  }

  static NodePtr make(Op op, NodePtr a, NodePtr b = nullptr) {
    auto node = std::make_unique<Node>();
    node->op = op;
    node->arguments.push_back(std::move(a));
    if (b) node->arguments.push_back(std::move(b));
    return node;
  }

  NodePtr disjunction() {
    const Depth depth(*this);
    NodePtr left = conjunction();
    while (take("or")) left = make(Op::kOr, std::move(left), conjunction());
    return left;
  }

  NodePtr conjunction() {
    NodePtr left = negation();
    while (take("and")) left = make(Op::kAnd, std::move(left), negation());
    return left;
  }

  NodePtr negation() {
    const Depth depth(*this);
    return take("not") ? make(Op::kNot, negation()) : comparison();
  }

  NodePtr comparison() {
    static const std::pair<std::string_view, Op> operators[] = {{"<=", Op::kLessEqual}, {">=", Op::kGreaterEqual},
                                                                {"==", Op::kEqual},     {"!=", Op::kNotEqual},
                                                                {"<", Op::kLess},       {">", Op::kGreater}};
    NodePtr left = sum();
    for (const auto& [token, op] : operators) {
      if (take(token)) return make(op, std::move(left), sum());
    }
    return left;
  }

  NodePtr sum() {
    NodePtr left = product();
    while (true) {
      if (take("+")) left = make(Op::kAdd, std::move(left), product());
      else if (take("-")) left = make(Op::kSubtract, std::move(left), product());
      else return left;
    }
  }

  NodePtr product() {
    NodePtr left = unary();
    while (true) {
      if (take("*")) left = make(Op::kMultiply, std::move(left), unary());
      else if (take("/")) left = make(Op::kDivide, std::move(left), unary());
      else return left;
    }
  }

  NodePtr unary() {
    const Depth depth(*this);
    if (take("-")) return make(Op::kNegate, unary());
    NodePtr base = primary();
    return take("^") ? make(Op::kPower, std::move(base), unary()) : std::move(base);
  }

  NodePtr primary() {
    skip_space();
    if (take("(")) {
      NodePtr inside = disjunction();
      if (!take(")")) wrong("expected ')'");
      return inside;
    }
    if (at_ == text_.size()) wrong("expected a number, a name or '('");
    const char first = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '.') return number();
    if (std::isalpha(static_cast<unsigned char>(first)) != 0 || first == '_') return name();
    wrong(fmt::format("expected a number, a name or '(', found '{}'", first));
  }

  NodePtr number() {
    auto node = std::make_unique<Node>();
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), node->number);
    if (error != std::errc()) wrong("is not a number");
    at_ = static_cast<size_t>(end - text_.data());
    return node;
  }

  NodePtr name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (take("(")) return call(word, begin);
    const auto found = std::find(variables_.begin(), variables_.end(), word);
    if (found == variables_.end()) {
      at_ = begin;
      wrong(fmt::format("unknown name '{}'{}", word, nearest_hint(word, variables_)));
    }
    auto node = std::make_unique<Node>();
    node->op = Op::kVariable;
    node->variable = static_cast<size_t>(found - variables_.begin());
    return node;
  }

  NodePtr call(const std::string& word, size_t begin) {
    const auto found = functions().find(word);
    if (found == functions().end()) {
      std::vector<std::string> known;
      for (const auto& entry : functions()) known.push_back(entry.first);
      at_ = begin;
      wrong(fmt::format("unknown function '{}'{}", word, nearest_hint(word, known)));
    }
    auto node = std::make_unique<Node>();
    node->op = found->second.op;
    if (!take(")")) {
      do {
        node->arguments.push_back(disjunction());
      } while (take(","));
      if (!take(")")) wrong(fmt::format("expected ',' or ')' in {}(...)", word));
    }
    const size_t count = node->arguments.size();
    if (count < found->second.least || count > found->second.most) {
      at_ = begin;
      wrong(fmt::format("{} takes {}{} argument(s), not {}", word, found->second.least,
                        found->second.most > found->second.least ? " or more" : "", count));
    }
    return node;
  }

  std::string_view text_;
  const std::vector<std::string>& variables_;
  size_t at_ = 0;
  int depth_ = 0;
};

double value_of(const Node& node, const std::vector<double>& values) {
  const auto arg = [&](size_t i) { return value_of(*node.arguments[i], values); };
  switch (node.op) {
    case Op::kNumber: return node.number;
    case Op::kVariable: return values.at(node.variable);
    case Op::kAdd: return arg(0) + arg(1);
    case Op::kSubtract: return arg(0) - arg(1);
    case Op::kMultiply: return arg(0) * arg(1);
    case Op::kDivide: return arg(0) / arg(1);
    case Op::kPower: return std::pow(arg(0), arg(1));
    case Op::kNegate: return -arg(0);
    case Op::kNot: return arg(0) == 0 ? 1 : 0;
    case Op::kAnd: return arg(0) != 0 && arg(1) != 0 ? 1 : 0;
    case Op::kOr: return arg(0) != 0 || arg(1) != 0 ? 1 : 0;
    case Op::kLess: return arg(0) < arg(1) ? 1 : 0;
    case Op::kLessEqual: return arg(0) <= arg(1) ? 1 : 0;
    case Op::kGreater: return arg(0) > arg(1) ? 1 : 0;
    case Op::kGreaterEqual: return arg(0) >= arg(1) ? 1 : 0;
    case Op::kEqual: return arg(0) == arg(1) ? 1 : 0;
    case Op::kNotEqual: return arg(0) != arg(1) ? 1 : 0;
    case Op::kLn: return std::log(arg(0));
    case Op::kExp: return std::exp(arg(0));
    case Op::kSqrt: return std::sqrt(arg(0));
    case Op::kAbs: return std::fabs(arg(0));
    case Op::kClip: return std::max(arg(1), std::min(arg(0), arg(2)));
    case Op::kIf: return arg(0) != 0 ? arg(1) : arg(2);
    case Op::kMin:
    case Op::kMax: {
      double best = arg(0);
      for (size_t i = 1; i < node.arguments.size(); ++i)
        best = node.op == Op::kMin ? std::min(best, arg(i)) : std::max(best, arg(i));
      return best;
    }
  }
  TF_CHECK(false, "operator {} has no evaluation", static_cast<int>(node.op));
  return 0;
}

}  // namespace

Expression::Expression(std::string_view text, const std::vector<std::string>& variables)
    : root_(Parser(text, variables).parse()) {}
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;
Expression::~Expression() = default;

double Expression::evaluate(const std::vector<double>& values) const { return value_of(*root_, values); }

}  // namespace tritonforge::rollout
