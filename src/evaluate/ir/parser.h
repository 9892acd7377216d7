#pragma once
// The parser behind parse() of module.h: one pass over the text by a character cursor. Almost all operations share one
// form: words, operands, bracketed lists and an attribute dictionary up to a colon, then types; only scf's control flow
// has a grammar of its own. parser_values.cpp reads types, attributes, constants and locations; parser.cpp operations,
// regions and functions.
#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "evaluate/ir/module.h"

namespace tritonforge::evaluate::ir {

inline bool word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
inline bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

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
  // Its parts that are more than a word.
  void bracketed(Operation& op);
  void regions(Operation& op);
  void properties(Operation& op);
  void successor(Operation& op);
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

}  // namespace tritonforge::evaluate::ir
