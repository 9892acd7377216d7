// One pass over the text by a character cursor. Almost all operations share one form: words, operands, bracketed lists
// and an attribute dictionary up to a colon, then types; only scf's control flow has a grammar of its own.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "evaluate/ir/module.h"

namespace tritonforge::evaluate::ir {
namespace {

bool word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$'; }

class Parser {
 public:
  Parser(std::string_view text, const Limits& limits) : text_(text), limits_(limits) {
    if (text.size() > limits.bytes)
      fail(ErrorKind::kUsage, "Triton IR of {} bytes is over the limit of {}", text.size(), limits.bytes);
  }
  Module parse();

 private:
  struct Named {
    int first, count;
  };

  // Errors and characters.
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kUsage, "Triton IR line {}{}: {}", line(), op_.empty() ? "" : ", " + op_,
         fmt::format(format, std::forward<Args>(args)...));
  }
  int line() const {
    return 1 + static_cast<int>(std::count(text_.begin(),
                                           text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size())), '\n'));
  }
  // The same for positions that only grow, counted on from the last one.
  int next_line() {
    counted_lines_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(counted_),
                                                  text_.begin() + static_cast<ptrdiff_t>(at_), '\n'));
    counted_ = at_;
    return 1 + counted_lines_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // Skips blanks and comments; says whether a line ended on the way.
  bool skip() {
    bool new_line = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '/' && text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        new_line = new_line || c == '\n';
        ++at_;
      } else {
        break;
      }
    }
    return new_line;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    if (word_char(token.back()) && at_ + token.size() < text_.size() && word_char(text_[at_ + token.size()]))
      return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) wrong("'{}' expected, found '{}'", token, text_.substr(at_, 16));
  }
  std::string word() {
    skip();
    const size_t from = at_;
    if (!word_start(peek())) wrong("a word expected, found '{}'", text_.substr(at_, 16));
    while (at_ < text_.size() && word_char(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
      if (text_[at_] == '\\') out += text_[at_++];
      if (at_ < text_.size()) out += text_[at_++];
    }
    expect("\"");
    return out;
  }
  std::string symbol() {
    expect("@");
    if (peek() == '"') return quoted();
    const size_t from = at_;
    while (at_ < text_.size() && (word_char(text_[at_]) || text_[at_] == '-')) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }
  int64_t integer() {
    skip();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) wrong("a whole number expected, found '{}'", text_.substr(at_, 16));
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // Values.
  std::string value_name() {
    expect("%");
    const size_t from = at_;
    while (at_ < text_.size() && (word_char(text_[at_]) || text_[at_] == '-')) ++at_;
    if (at_ == from) wrong("a value without name");
    return std::string(text_.substr(from, at_ - from));
  }
  int use() {
    const std::string name = value_name();
    const auto found = names_.find(name);
    if (found == names_.end() || found->second.empty()) wrong("%{} is not defined before", name);
    const Named named = found->second.back();
    int index = 0;
    if (peek() == '#') {
      ++at_;
      index = static_cast<int>(std::clamp<int64_t>(integer(), -1, 1 << 20));
    } else if (named.count != 1) {
      wrong("%{} names {} values", name, named.count);
    }
    if (index < 0 || index >= named.count) wrong("%{} has no result {}", name, index);
    return named.first + index;
  }
  int define(const std::string& name, const std::vector<Type>& types) {
    const int first = static_cast<int>(function_->values.size());
    function_->values.insert(function_->values.end(), types.begin(), types.end());
    if (!name.empty()) {
      names_[name].push_back({first, static_cast<int>(types.size())});
      defined_.push_back(name);
    }
    return first;
  }
  void leave_scope(size_t mark) {
    while (defined_.size() > mark) {
      names_[defined_.back()].pop_back();
      defined_.pop_back();
    }
  }

  Type type();
  Type type_after_prefix(std::string_view prefix);
  Attribute attribute();
  void dictionary(std::map<std::string, Attribute>& into, std::string_view close);
  int location();
  void dense(Operation& op);
  uint64_t bits_of_number(Kind kind);
  void types_of(Operation& op, std::vector<Type>& results);
  Region region(const std::vector<std::pair<std::string, Type>>& arguments);
  void blocks_into(Region& out, std::vector<std::pair<std::string, int>>& labels);
  void operation(Block& block);
  void plain(Operation& op, std::vector<Type>& results);
  void loop_for(Operation& op, std::vector<Type>& results);
  void branch_if(Operation& op, std::vector<Type>& results);
  void loop_while(Operation& op, std::vector<Type>& results);
  std::vector<Type> result_types(const Operation& op, const std::vector<Type>& after_arrow, bool arrow, size_t wanted);
  void function(Module& module);
  void location_table(Module& module);

  std::string_view text_;
  Limits limits_;
  size_t at_ = 0, counted_ = 0;
  int counted_lines_ = 0, operations_ = 0, depth_ = 0;
  std::string op_;
  Function* function_ = nullptr;
  std::unordered_map<std::string, std::vector<Named>> names_;
  std::vector<std::string> defined_;
  std::unordered_map<std::string, int> location_ids_;
  std::vector<std::string> location_names_;
  std::vector<std::pair<std::string, int>>* labels_ = nullptr;  // of the region under way
};

const std::vector<std::pair<std::string_view, Kind>> kKinds = {
    {"i1", Kind::kI1},   {"i8", Kind::kI8},     {"i16", Kind::kI16},         {"i32", Kind::kI32},
    {"i64", Kind::kI64}, {"index", Kind::kI64}, {"f16", Kind::kF16},         {"f32", Kind::kF32},
    {"f64", Kind::kF64}, {"bf16", Kind::kBF16}, {"f8E4M3FN", Kind::kF8E4M3}, {"f8E5M2", Kind::kF8E5M2}};

Type Parser::type() {
  skip();
  Type out;
  if (take("tensor<")) {
    out.block = true;
    int64_t elements = 1;
    while (std::isdigit(static_cast<unsigned char>(peek()))) {
      const int64_t size = integer();
      if (size < 1 || size > limits_.block_elements || elements > limits_.block_elements / size)
        wrong("a tensor of more than {} elements", limits_.block_elements);
      elements *= size;
      out.shape.push_back(size);
      if (static_cast<int>(out.shape.size()) > limits_.rank) wrong("a tensor of more than {} dimensions", limits_.rank);
      if (peek() != 'x') wrong("'x' expected in a tensor type");
      ++at_;
    }
    const Type element = type();
    if (element.block) wrong("a tensor of tensors");
    out.kind = element.kind;
    out.pointee = element.pointee;
    if (take(",")) wrong("a tensor with an encoding: only IR before layout assignment is evaluated");
    expect(">");
    return out;
  }
  if (take("!tt.ptr<") || take("<")) {
    const Type inner = type();
    if (take(",")) integer();  // address space
    expect(">");
    if (inner.block) return {.kind = Kind::kTuple, .pointee = inner.kind, .block = false, .shape = inner.shape};
    return {.kind = Kind::kPointer, .pointee = inner.kind};
  }
  if (take("!tt.tensordesc<")) {
    const Type inner = type();
    expect(">");
    if (!inner.block) wrong("a descriptor of a scalar");
    return {.kind = Kind::kTuple, .pointee = inner.kind, .block = false, .shape = inner.shape};
  }
  if (peek() == '!') wrong("type '{}' is not evaluated", text_.substr(at_, 24));
  const std::string name = word();
  for (const auto& [text, kind] : kKinds) {
    if (name == text) {
      out.kind = kind;
      return out;
    }
  }
  fail(ErrorKind::kUnsupported, "Triton IR line {}: type {} is not evaluated", line(), name);
}

Attribute Parser::attribute() {
  skip();
  Attribute out;
  if (peek() == '"') {
    out.word = quoted();
  } else if (peek() == '-' || std::isdigit(static_cast<unsigned char>(peek()))) {
    out.form = Attribute::Form::kInteger;
    out.integer = integer();
    if (peek() == '.') {  // a float: no operation here reads one
      while (at_ < text_.size() && (word_char(text_[at_]) || text_[at_] == '+' || text_[at_] == '-')) ++at_;
    }
    if (take(":")) type();
  } else if (take("array<")) {
    out.form = Attribute::Form::kList;
    word();
    if (take(":")) {
      do {
        if (take("true")) out.list.push_back(1);
        else if (take("false")) out.list.push_back(0);
        else out.list.push_back(integer());
        if (out.list.size() > 64) wrong("a list of more than 64 numbers");
      } while (take(","));
    }
    expect(">");
  } else {
    out.word = word();
    if (out.word == "true" || out.word == "false") {
      out.form = Attribute::Form::kInteger;
      out.integer = out.word == "true";
    }
  }
  return out;
}

void Parser::dictionary(std::map<std::string, Attribute>& into, std::string_view close) {
  if (take(close)) return;
  do {
    skip();
    const std::string key = peek() == '"' ? quoted() : word();
    Attribute value{.form = Attribute::Form::kInteger, .integer = 1};
    if (take("=")) value = attribute();
    into[key] = value;
    if (into.size() > 64) wrong("more than 64 attributes");
  } while (take(","));
  expect(close);
}

// loc(#loc12), loc("name"(#loc)), loc("file":3:4), loc(unknown): the index of its text, -1 where it has none.
int Parser::location() {
  expect("(");
  int depth = 1, found = -1;
  while (at_ < text_.size() && depth > 0) {
    const char c = text_[at_];
    if (c == '"') {
      quoted();
      continue;
    }
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == '#') {
      const size_t from = at_++;
      while (at_ < text_.size() && word_char(text_[at_])) ++at_;
      const std::string name(text_.substr(from, at_ - from));
      if (found < 0) {
        const auto [place, fresh] = location_ids_.try_emplace(name, static_cast<int>(location_names_.size()));
        if (fresh) location_names_.push_back(name);
        found = place->second;
      }
      continue;
    }
    ++at_;
  }
  return found;
}

uint64_t Parser::bits_of_number(Kind kind) {
  skip();
  if (take("true")) return 1;
  if (take("false")) return 0;
  const size_t from = at_;
  if (peek() == '-' || peek() == '+') ++at_;
  while (at_ < text_.size() &&
         (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
          ((text_[at_] == '-' || text_[at_] == '+') && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))))
    ++at_;
  std::string_view number = text_.substr(from, at_ - from);
  if (number.starts_with("0x") || number.starts_with("0X")) {
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(number.data() + 2, number.data() + number.size(), bits, 16);
    if (error != std::errc() || end != number.data() + number.size()) wrong("'{}' is not a hexadecimal number", number);
    return bits;
  }
  if (!is_float(kind)) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error == std::errc() && end == number.data() + number.size()) return static_cast<uint64_t>(value);
    uint64_t wide = 0;
    const auto [end2, error2] = std::from_chars(number.data(), number.data() + number.size(), wide);
    if (error2 != std::errc() || end2 != number.data() + number.size()) wrong("'{}' is not a whole number", number);
    return wide;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) wrong("'{}' is not a number", number);
  // Decimal text: the double is kept, and marked by the operation's attribute "decimal".
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// arith.constant's value. Decimal floats are held as double bits (attribute "decimal"), hexadecimal ones as their own.
void Parser::dense(Operation& op) {
  struct Item {
    uint64_t bits;
    bool decimal;
  };
  std::vector<Item> items;
  for (const bool truth : {true, false}) {  // the only constants whose type is left out
    if (!take(truth ? "true" : "false")) continue;
    op.dense = {truth};
    op.types.push_back({.kind = Kind::kI1});
    if (take(":")) type();
    return;
  }
  // The type follows the value, but decides how it is read: look ahead for it.
  const size_t from = at_;
  skip();
  const bool is_dense = text_.substr(at_, 6) == "dense<";
  int depth = 0;
  size_t scan = at_;
  for (; scan < text_.size(); ++scan) {
    const char c = text_[scan];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c == '\n' || (c == ':' && depth == 0)) break;
  }
  if (scan >= text_.size() || text_[scan] != ':') wrong("a constant without a type");
  at_ = scan + 1;
  const Type wanted = type();
  const size_t end = at_;
  at_ = from;
  const auto one = [&] {
    skip();
    const bool hexadecimal = text_.substr(at_, 2) == "0x";
    const uint64_t bits = bits_of_number(wanted.kind);
    items.push_back({bits, is_float(wanted.kind) && !hexadecimal});
    if (static_cast<int64_t>(items.size()) > wanted.elements()) wrong("more numbers than the tensor has elements");
  };
  if (is_dense) {
    expect("dense<");
    skip();
    if (peek() == '"')
      fail(ErrorKind::kUnsupported, "Triton IR line {}: a constant of raw bytes is not evaluated", line());
    while (!take(">")) {
      if (take("[") || take("]") || take(",")) continue;
      one();
    }
    if (items.size() != 1 && static_cast<int64_t>(items.size()) != wanted.elements())
      wrong("{} numbers for {} elements", items.size(), wanted.elements());
  } else {
    one();
  }
  if (items.empty()) wrong("a constant without a value");
  bool decimal = false;
  for (const Item& item : items) {
    if (item.decimal != items.front().decimal) wrong("a constant that mixes decimal and hexadecimal numbers");
    decimal = item.decimal;
    op.dense.push_back(item.bits);
  }
  if (decimal) op.attributes["decimal"] = {.form = Attribute::Form::kInteger, .integer = 1};
  at_ = end;
  op.types.push_back(wanted);
}

// Types after the colon: those up to an arrow or "to" go to op.types, the others to `results`.
void Parser::types_of(Operation& op, std::vector<Type>& results) {
  bool after = false;
  for (;;) {
    if (take("(")) continue;
    if (take(")")) {
      skip();
    } else {
      (after ? results : op.types).push_back(type());
      if (op.types.size() + results.size() > 1024) wrong("more than 1024 types");
    }
    const size_t mark = at_;
    const bool new_line = skip();
    if (take("->") || take("to")) {
      after = true;
      if (take("(")) {
        if (take(")")) return;
      }
      continue;
    }
    if (take(",") || take("*")) continue;
    if (take(")")) {
      if (take("->")) {
        after = true;
        continue;
      }
      return;
    }
    if (new_line) at_ = mark;
    return;
  }
}

Region Parser::region(const std::vector<std::pair<std::string, Type>>& arguments) {
  if (++depth_ > limits_.depth) wrong("regions are nested deeper than {}", limits_.depth);
  expect("{");
  const size_t mark = defined_.size();
  Region out;
  out.blocks.emplace_back();
  for (const auto& [name, type] : arguments) out.blocks.back().arguments.push_back(define(name, {type}));
  std::vector<std::pair<std::string, int>> labels;
  auto* outer = labels_;
  labels_ = &labels;
  blocks_into(out, labels);
  labels_ = outer;
  for (auto& block : out.blocks) {
    for (auto& op : block.operations) {
      for (auto& successor : op.successors) {
        const std::string& wanted = labels[static_cast<size_t>(successor.block)].first;
        const int at = labels[static_cast<size_t>(successor.block)].second;
        if (at < 0) wrong("block {} is not there", wanted);
        successor.block = at;
      }
    }
  }
  leave_scope(mark);
  --depth_;
  return out;
}

void Parser::blocks_into(Region& out, std::vector<std::pair<std::string, int>>& labels) {
  bool first = true;
  while (!take("}")) {
    skip();
    if (at_ >= text_.size()) wrong("the text ends inside a region");
    if (peek() == '^') {
      ++at_;
      const std::string name = word();
      if (!(first && out.blocks.size() == 1 && out.blocks.front().operations.empty() &&
            out.blocks.front().arguments.empty()))
        out.blocks.emplace_back();
      const int index = static_cast<int>(out.blocks.size()) - 1;
      const auto known = std::find_if(labels.begin(), labels.end(),
                                      [&](const auto& label) { return label.first == name; });
      if (known == labels.end()) labels.emplace_back(name, index);
      else if (known->second < 0) known->second = index;
      else wrong("block {} is there twice", name);
      if (take("(")) {
        while (!take(")")) {
          const std::string argument = value_name();
          expect(":");
          const Type of = type();
          out.blocks.back().arguments.push_back(define(argument, {of}));
          if (take("loc")) location();
          take(",");
        }
      }
      expect(":");
    } else {
      operation(out.blocks.back());
    }
    first = false;
  }
}

std::vector<Type> Parser::result_types(const Operation& op, const std::vector<Type>& after_arrow, bool arrow,
                                       size_t wanted) {
  const auto need = [&](size_t count) {
    if (op.types.size() < count) wrong("its type is missing");
  };
  if (op.name == "arith.cmpi" || op.name == "arith.cmpf") {
    need(1);
    Type out = op.types.back();
    out.kind = Kind::kI1;
    return {out};
  }
  if (op.name == "tt.load") {
    need(1);
    const Type& pointer = op.types.front();
    if (pointer.kind == Kind::kTuple) return {{.kind = pointer.pointee, .block = true, .shape = pointer.shape}};
    if (pointer.kind != Kind::kPointer) wrong("a load from what is no pointer");
    return {{.kind = pointer.pointee, .block = pointer.block, .shape = pointer.shape}};
  }
  if (op.name == "tt.addptr") {
    need(1);
    return {op.types.front()};
  }
  if (op.name == "tt.split") {
    if (after_arrow.size() != 1) wrong("its type is missing");
    return {after_arrow.front(), after_arrow.front()};
  }
  if (arrow || !after_arrow.empty()) return after_arrow;
  if (wanted == 0) return {};
  need(1);
  return {op.types.back()};
}

void Parser::plain(Operation& op, std::vector<Type>& results) {
  bool typed = false;
  if (op.name == "arith.constant") {
    if (take("{")) dictionary(op.attributes, "}");
    dense(op);
    results = {op.types.front()};
    return;
  }
  for (;;) {
    const size_t mark = at_;
    if (skip()) {
      at_ = mark;
      break;
    }
    const char c = peek();
    if (c == '\0' || c == '}') break;
    if (c == '%') {
      op.operands.push_back(use());
      if (op.operands.size() > 1024) wrong("more than 1024 operands");
    } else if (c == '[') {
      ++at_;
      const size_t before = op.operands.size();
      while (!take("]")) {
        op.operands.push_back(use());
        take(",");
      }
      op.groups.push_back(static_cast<int>(op.operands.size() - before));
    } else if (c == ',' || c == ')') {
      ++at_;
    } else if (c == '(') {
      ++at_;
      if (take("{")) {
        --at_;
        op.regions.push_back(region({}));
        while (take(",")) op.regions.push_back(region({}));
        expect(")");
      }
    } else if (c == '{') {
      ++at_;
      dictionary(op.attributes, "}");
    } else if (c == '<') {
      ++at_;
      if (take("{")) {
        dictionary(op.attributes, "}");
        expect(">");
      } else {  // fastmath<contract>, overflow<nsw>
        while (at_ < text_.size() && peek() != '>' && peek() != '\n') ++at_;
        expect(">");
      }
    } else if (c == '^') {
      ++at_;
      const std::string name = word();
      auto known = std::find_if(labels_->begin(), labels_->end(),
                                [&](const auto& label) { return label.first == name; });
      if (known == labels_->end()) known = labels_->insert(labels_->end(), {name, -1});
      Successor next{.block = static_cast<int>(known - labels_->begin())};
      if (take("(")) {
        while (!take(":")) {
          next.operands.push_back(use());
          take(",");
        }
        do type();
        while (take(","));
        expect(")");
      }
      op.successors.push_back(std::move(next));
    } else if (c == '@') {
      op.attributes["callee"] = {.word = symbol()};
    } else if (c == '"') {
      op.attributes["text"] = {.word = quoted()};
    } else if (c == ':') {
      ++at_;
      skip();
      if (peek() == '%') continue;  // tt.print's operands follow a colon of their own
      typed = true;
      break;
    } else if (word_start(c)) {
      const std::string name = word();
      if (name == "loc" && peek() == '(') {
        at_ -= 3;
        break;
      }
      if (take("=")) {
        op.attributes[name] = attribute();
      } else {
        op.words.push_back(name);
      }
    } else {
      wrong("unexpected '{}'", text_.substr(at_, 16));
    }
  }
  std::vector<Type> after;
  if (typed) types_of(op, after);
  results = std::move(after);
}

void Parser::loop_for(Operation& op, std::vector<Type>& results) {
  if (take("unsigned")) op.attributes["unsigned"] = {.form = Attribute::Form::kInteger, .integer = 1};
  const std::string induction = value_name();
  expect("=");
  op.operands.push_back(use());
  expect("to");
  op.operands.push_back(use());
  expect("step");
  op.operands.push_back(use());
  std::vector<std::string> names;
  if (take("iter_args")) {
    expect("(");
    while (!take(")")) {
      names.push_back(value_name());
      expect("=");
      op.operands.push_back(use());
      take(",");
    }
    expect("->");
    expect("(");
    do results.push_back(type());
    while (take(","));
    expect(")");
  }
  if (results.size() != names.size()) wrong("{} types for {} iteration arguments", results.size(), names.size());
  Type counter{.kind = Kind::kI64};
  if (take(":")) counter = type();
  if (!is_integer(counter.kind) || counter.block) wrong("a loop over what is no integer");
  std::vector<std::pair<std::string, Type>> arguments{{induction, counter}};
  for (size_t i = 0; i < names.size(); ++i) arguments.emplace_back(names[i], results[i]);
  op.regions.push_back(region(arguments));
  if (take("{")) dictionary(op.attributes, "}");
}

void Parser::branch_if(Operation& op, std::vector<Type>& results) {
  op.operands.push_back(use());
  if (take("->")) {
    expect("(");
    do results.push_back(type());
    while (take(","));
    expect(")");
  }
  op.regions.push_back(region({}));
  if (take("else")) op.regions.push_back(region({}));
}

void Parser::loop_while(Operation& op, std::vector<Type>& results) {
  std::vector<std::string> names;
  if (take("(")) {
    while (!take(")")) {
      names.push_back(value_name());
      expect("=");
      op.operands.push_back(use());
      take(",");
    }
  }
  expect(":");
  expect("(");
  if (!take(")")) {
    do op.types.push_back(type());
    while (take(","));
    expect(")");
  }
  expect("->");
  if (take("(")) {
    if (!take(")")) {
      do results.push_back(type());
      while (take(","));
      expect(")");
    }
  } else {
    results.push_back(type());
  }
  if (op.types.size() != names.size()) wrong("{} types for {} arguments", op.types.size(), names.size());
  std::vector<std::pair<std::string, Type>> arguments;
  for (size_t i = 0; i < names.size(); ++i) arguments.emplace_back(names[i], op.types[i]);
  op.regions.push_back(region(arguments));
  expect("do");
  op.regions.push_back(region({}));
}

void Parser::operation(Block& block) {
  if (++operations_ > limits_.operations) wrong("more than {} operations", limits_.operations);
  Operation op;
  std::string name;
  size_t wanted = 0;
  skip();
  op_.clear();
  if (peek() == '%') {
    name = value_name();
    wanted = 1;
    if (take(":")) wanted = static_cast<size_t>(std::clamp<int64_t>(integer(), 0, 1024));
    // tt.split prints its results apart: %a, %b = tt.split
    std::vector<std::string> more;
    while (take(",")) more.push_back(value_name());
    expect("=");
    if (!more.empty()) {
      more.insert(more.begin(), name);
      skip();
      op.text_line = next_line();
      op.name = op_ = word();
      std::vector<Type> results;
      plain(op, results);
      results = result_types(op, results, !results.empty(), more.size());
      if (results.size() != more.size()) wrong("{} results for {} names", results.size(), more.size());
      for (size_t i = 0; i < more.size(); ++i) op.results.push_back(define(more[i], {results[i]}));
      if (take("loc")) op.location = location();
      block.operations.push_back(std::move(op));
      return;
    }
  }
  skip();
  op.text_line = next_line();
  op.name = op_ = peek() == '"' ? quoted() : word();
  std::vector<Type> results;
  bool arrow = true;
  if (op.name == "scf.for") loop_for(op, results);
  else if (op.name == "scf.if") branch_if(op, results);
  else if (op.name == "scf.while") loop_while(op, results);
  else {
    plain(op, results);
    arrow = !results.empty();
  }
  op_ = op.name;
  results = result_types(op, results, arrow, wanted);
  if (results.size() != wanted) {
    if (wanted != 0) wrong("{} results, {} are named", results.size(), wanted);
    results.clear();  // an unused call's results have no names
  }
  const int first = define(name, results);
  for (size_t i = 0; i < results.size(); ++i) op.results.push_back(first + static_cast<int>(i));
  if (take("loc")) op.location = location();
  block.operations.push_back(std::move(op));
}

void Parser::function(Module& module) {
  if (module.functions.size() >= 4096) wrong("more than 4096 functions");
  Function out;
  function_ = &out;
  names_.clear();
  defined_.clear();
  out.is_public = take("public");
  if (!out.is_public) take("private");
  out.name = symbol();
  expect("(");
  std::vector<std::pair<std::string, Type>> arguments;
  while (!take(")")) {
    const std::string name = value_name();
    expect(":");
    const Type of = type();
    std::map<std::string, Attribute> ignored;
    if (take("{")) dictionary(ignored, "}");
    if (take("loc")) location();
    arguments.emplace_back(name, of);
    if (arguments.size() > 1024) wrong("more than 1024 arguments");
    take(",");
  }
  if (take("->")) {
    if (take("(")) {
      do out.results.push_back(type());
      while (take(","));
      expect(")");
    } else {
      out.results.push_back(type());
    }
  }
  std::map<std::string, Attribute> ignored;
  if (take("attributes")) {
    expect("{");
    dictionary(ignored, "}");
  }
  out.body = region(arguments);
  out.arguments = out.body.blocks.front().arguments;
  for (const auto& [name, type] : arguments) out.argument_names.push_back(name);
  if (take("loc")) location();
  op_.clear();
  module.functions.push_back(std::move(out));
  function_ = nullptr;
}

// #loc3 = loc("file":12:4) | loc("name"(#loc1)) | loc(callsite(#a at #b)): the first file and line that a chain leads
// to.
void Parser::location_table(Module& module) {
  std::unordered_map<std::string, std::string> text;
  size_t from = 0;
  while (from < text_.size()) {
    size_t end = text_.find('\n', from);
    if (end == std::string_view::npos) end = text_.size();
    const std::string_view line = text_.substr(from, end - from);
    from = end + 1;
    if (!line.starts_with("#loc")) continue;
    const size_t equals = line.find(" = ");
    if (equals != std::string_view::npos)
      text[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 3));
  }
  for (const std::string& name : location_names_) {
    std::string found, at = name;
    for (int hops = 0; hops < 16; ++hops) {
      const auto known = text.find(at);
      if (known == text.end()) break;
      const std::string& body = known->second;
      const size_t quote = body.find('"'), close = quote == std::string::npos ? quote : body.find('"', quote + 1);
      if (close != std::string::npos && body.size() > close + 1 && body[close + 1] == ':') {
        const std::string file = body.substr(quote + 1, close - quote - 1);
        const size_t digits = close + 2;
        const size_t stop = body.find_first_not_of("0123456789", digits);
        found = file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1) + ":" +
                body.substr(digits, stop - digits);
        break;
      }
      const size_t hash = body.find('#');
      if (hash == std::string::npos) break;
      size_t stop = hash + 1;
      while (stop < body.size() && word_char(body[stop])) ++stop;
      at = body.substr(hash, stop - hash);
    }
    module.locations.push_back(found.substr(0, 200));
  }
}

Module Parser::parse() {
  Module module;
  bool wrapped = false;
  for (;;) {
    skip();
    if (at_ >= text_.size()) break;
    if (peek() == '#') {  // a location or alias, read by location_table
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (take("module")) {
      if (take("attributes")) {
        expect("{");
        std::map<std::string, Attribute> ignored;
        dictionary(ignored, "}");
      }
      expect("{");
      wrapped = true;
    } else if (take("tt.func")) {
      function(module);
    } else if (wrapped && take("}")) {
      if (take("loc")) location();
      wrapped = false;
    } else {
      wrong("'module' or 'tt.func' expected, found '{}'", text_.substr(at_, 16));
    }
  }
  location_table(module);
  return module;
}

}  // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::kI1: return "i1";
    case Kind::kI8: return "i8";
    case Kind::kI16: return "i16";
    case Kind::kI32: return "i32";
    case Kind::kI64: return "i64";
    case Kind::kF8E4M3: return "f8E4M3FN";
    case Kind::kF8E5M2: return "f8E5M2";
    case Kind::kF16: return "f16";
    case Kind::kBF16: return "bf16";
    case Kind::kF32: return "f32";
    case Kind::kF64: return "f64";
    case Kind::kPointer: return "pointer";
    case Kind::kTuple: return "block pointer";
  }
  return "?";
}

std::string to_string(const Type& type) {
  if (!type.block) return std::string(name_of(type.kind));
  return fmt::format("tensor<{}x{}>", fmt::join(type.shape, "x"), name_of(type.kind));
}

const Function* Module::find(std::string_view name) const {
  for (const auto& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

const Function& Module::entry() const {
  const Function* found = nullptr;
  for (const auto& function : functions) {
    if (!function.is_public) continue;
    if (found) fail(ErrorKind::kUsage, "Triton IR has two public functions, {} and {}", found->name, function.name);
    found = &function;
  }
  if (!found) fail(ErrorKind::kUsage, "Triton IR has no public function");
  return *found;
}

Module parse(std::string_view text, const Limits& limits) { return Parser(text, limits).parse(); }

std::string without_locations(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 2);
  bool line_start = true;
  for (size_t i = 0; i < text.size();) {
    if (line_start && text.substr(i, 4) == "#loc") {
      const size_t end = text.find('\n', i);
      i = end == std::string_view::npos ? text.size() : end + 1;
      continue;
    }
    line_start = text[i] == '\n';
    if (text[i] == '"') {  // a string is kept whole
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      out.append(text.substr(i, end - i));
      i = end;
      continue;
    }
    if (text.substr(i, 5) == " loc(") {
      int depth = 0;
      size_t end = i + 4;
      for (; end < text.size(); ++end) {
        if (text[end] == '"') {
          for (++end; end < text.size() && text[end] != '"'; ++end) end += text[end] == '\\';
          continue;
        }
        if (text[end] == '(') ++depth;
        if (text[end] == ')' && --depth == 0) break;
      }
      i = std::min(end + 1, text.size());
      continue;
    }
    out += text[i++];
  }
  return out;
}

}  // namespace tritonforge::evaluate::ir
