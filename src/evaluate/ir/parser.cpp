#include "evaluate/ir/parser.h"

namespace tritonforge::evaluate::ir {

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
  if (op.name == "tt.unsplat") {
    need(1);
    return {{.kind = op.types.front().kind, .pointee = op.types.front().pointee}};
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

void Parser::bracketed(Operation& op) {
  expect("[");
  const size_t before = op.operands.size();
  while (!take("]")) {
    op.operands.push_back(use());
    take(",");
  }
  op.groups.push_back(static_cast<int>(op.operands.size() - before));
}

void Parser::regions(Operation& op) {
  expect("(");
  if (!take("{")) return;  // the brackets of a call's operands
  --at_;
  do op.regions.push_back(region({}));
  while (take(","));
  expect(")");
}

// <{attributes}>, or fastmath<contract> and overflow<nsw>, which change no value that is compared.
void Parser::properties(Operation& op) {
  expect("<");
  if (take("{")) dictionary(op.attributes, "}");
  else
    while (at_ < text_.size() && peek() != '>' && peek() != '\n') ++at_;
  expect(">");
}

void Parser::successor(Operation& op) {
  expect("^");
  const std::string name = word();
  auto known = std::ranges::find(*labels_, name, &std::pair<std::string, int>::first);
  if (known == labels_->end()) known = labels_->insert(labels_->end(), {name, -1});
  Successor next{.block = static_cast<int>(known - labels_->begin())};
  if (peek() == '(') {  // a blank would be skipped, and the end of the line with it
    ++at_;
    while (!take(":")) {
      next.operands.push_back(use());
      take(",");
    }
    do type();
    while (take(","));
    expect(")");
  }
  op.successors.push_back(std::move(next));
}

// Up to the end of its line, or of its block.
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
    if (c == ':') {
      ++at_;
      skip();
      if (peek() == '%') continue;  // tt.print's operands follow a colon of their own
      typed = true;
      break;
    }
    if (c == '%') {
      op.operands.push_back(use());
      if (op.operands.size() > 1024) wrong("more than 1024 operands");
    } else if (c == ',' || c == ')') {
      ++at_;
    } else if (c == '[') {
      bracketed(op);
    } else if (c == '(') {
      regions(op);
    } else if (c == '<') {
      properties(op);
    } else if (c == '^') {
      successor(op);
    } else if (take("{")) {
      dictionary(op.attributes, "}");
    } else if (c == '@') {
      op.attributes["callee"] = {.word = symbol()};
    } else if (c == '"') {
      op.attributes["text"] = {.word = quoted()};
    } else if (!word_start(c)) {
      wrong("unexpected '{}'", text_.substr(at_, 16));
    } else {
      const std::string name = word();
      if (name == "loc" && peek() == '(') {
        at_ = mark;
        break;
      }
      if (take("=")) op.attributes[name] = attribute();
      else op.words.push_back(name);
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

Module parse(std::string_view text, const Limits& limits) { return Parser(text, limits).parse(); }

}  // namespace tritonforge::evaluate::ir
