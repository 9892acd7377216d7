#include <cstring>

#include "evaluate/ir/parser.h"

namespace tritonforge::evaluate::ir {

namespace {

const std::vector<std::pair<std::string_view, Kind>> kKinds = {
    {"i1", Kind::kI1},   {"i8", Kind::kI8},     {"i16", Kind::kI16},         {"i32", Kind::kI32},
    {"i64", Kind::kI64}, {"index", Kind::kI64}, {"f16", Kind::kF16},         {"f32", Kind::kF32},
    {"f64", Kind::kF64}, {"bf16", Kind::kBF16}, {"f8E4M3FN", Kind::kF8E4M3}, {"f8E5M2", Kind::kF8E5M2},
    {"si8", Kind::kI8},  {"si16", Kind::kI16},  {"si32", Kind::kI32},        {"si64", Kind::kI64}};  // of descriptors

}  // namespace

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
  } else if (take("dense<")) {  // a hint, as tl.multiple_of leaves on what its operand comes from
    while (at_ < text_.size() && peek() != '>' && peek() != '\n') ++at_;
    expect(">");
    expect(":");
    type();
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

}  // namespace tritonforge::evaluate::ir
