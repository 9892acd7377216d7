#include "dataset/similarity/python_tokens.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/rng.h"

namespace tritonforge::dataset {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (static_cast<uint8_t>(c) & 0x80) != 0;
}
bool continues_name(char c) { return begins_name(c) || is_digit(c); }
bool is_quote(char c) { return c == '\'' || c == '"'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<PythonToken> run() {
    tokens_.reserve(source_.size() / 3);
    begin_line();
    while (at_ < source_.size()) step();
    return std::move(tokens_);
  }

 private:
  void step() {
    const char c = source_[at_];
    if (c == '\n') {
      ++at_;
      if (depth_ == 0) begin_line();
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\\') {
      at_ += c == '\\' && at_ + 1 < source_.size() ? 2 : 1;
    } else if (c == '#') {
      at_ = std::min(source_.find('\n', at_), source_.size());
    } else if (is_quote(c)) {
      take(PythonToken::kString, end_of_string(at_));
    } else if (begins_name(c)) {
      take_name();
    } else if (is_digit(c)) {
      size_t end = at_;
      while (end < source_.size() && (continues_name(source_[end]) || source_[end] == '.')) ++end;
      take(PythonToken::kNumber, end);
    } else {
      take_operator(c);
    }
  }

  void take(PythonToken::Kind kind, size_t end) {
    tokens_.push_back({kind, source_.substr(at_, end - at_)});
    at_ = end;
  }

  // A name, or the prefix of a string: r"...".
  void take_name() {
    size_t end = at_;
    while (end < source_.size() && continues_name(source_[end])) ++end;
    const bool prefix = end - at_ <= 2 && end < source_.size() && is_quote(source_[end]) &&
                        source_.substr(at_, end - at_).find_first_not_of("rRbBfFuU") == std::string_view::npos;
    take(prefix ? PythonToken::kString : PythonToken::kName, prefix ? end_of_string(end) : end);
  }

  void take_operator(char c) {
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
    size_t end = at_ + 1;
    constexpr std::string_view kJoined = "=<>!+-*/%&|^@:";
    if (kJoined.find(c) != std::string_view::npos && end < source_.size() && source_[end] == '=') ++end;
    take(PythonToken::kOperator, end);
  }

  size_t end_of_string(size_t quote) const {
    const std::string_view rest = source_.substr(quote);
    const std::string three(3, rest[0]);
    const bool triple = rest.starts_with(three);
    for (size_t at = quote + (triple ? 3 : 1); at < source_.size(); ++at) {
      if (source_[at] == '\\') ++at;
      else if (triple && source_.substr(at).starts_with(three)) return at + 3;
      else if (!triple && source_[at] == rest[0]) return at + 1;
      else if (!triple && source_[at] == '\n') return at;  // not closed: it ends with its line
    }
    return source_.size();
  }

  // A newline token for the next line that holds more than a comment.
  void begin_line() {
    size_t end = at_;
    while (end < source_.size() && (source_[end] == ' ' || source_[end] == '\t')) ++end;
    const bool blank = end == source_.size() || source_[end] == '\n' || source_[end] == '\r' || source_[end] == '#';
    if (blank) at_ = end;
    else take(PythonToken::kNewline, end);
  }

  std::string_view source_;
  std::vector<PythonToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

constexpr auto kKeywords = std::to_array<std::string_view>(
    {"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
     "class", "continue", "def",   "del",    "elif", "else",   "except", "for",      "finally",
     "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
     "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"});
bool is_keyword(std::string_view name) {
  return std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
}

using Names = std::unordered_set<std::string_view>;
using Tokens = std::vector<PythonToken>;

bool is(const PythonToken& token, char operation) {
  return token.kind == PythonToken::kOperator && token.text.size() == 1 && token.text[0] == operation;
}
bool opens(const PythonToken& token) { return is(token, '(') || is(token, '[') || is(token, '{'); }
bool closes(const PythonToken& token) { return is(token, ')') || is(token, ']') || is(token, '}'); }

bool is(const Tokens& tokens, size_t i, char operation) { return i < tokens.size() && is(tokens[i], operation); }

// Of `def f(a, *b, c=1):` and `lambda a, b:` the names of the parameters, from `i` up to `end` at the same depth. None
// where the line or the next `word` comes first, which also bounds the work on text that is no Python.
void bind_parameters(const Tokens& tokens, size_t i, std::string_view word, std::string_view end, Names& bound) {
  int depth = 0;
  std::vector<std::string_view> names;
  for (bool expected = true; i < tokens.size() && tokens[i].kind != PythonToken::kNewline; ++i) {
    const PythonToken& token = tokens[i];
    if (depth == 0 && token.text == end) return bound.insert(names.begin(), names.end());
    if (depth == 0 && expected && token.kind == PythonToken::kName) names.push_back(token.text);
    depth += opens(token) - closes(token);
    if (depth < 0 || token.text == word) return;
    expected = depth == 0 && (is(token, ',') || is(token, '*'));
  }
}

// The names that stand alone in [first, last): targets of an assignment or a loop.
void bind_targets(const Tokens& tokens, size_t first, size_t last, Names& bound) {
  for (size_t i = first; i < last; ++i) {
    if (tokens[i].kind != PythonToken::kName || is_keyword(tokens[i].text)) continue;
    const bool part = (i > first && is(tokens[i - 1], '.')) || is(tokens, i + 1, '.') || is(tokens, i + 1, '[') ||
                      is(tokens, i + 1, '(');
    if (!part) bound.insert(tokens[i].text);
  }
}

// Of `for a, (b, c) in`: none where no `in` comes before the line ends or the next `for`.
void bind_loop(const Tokens& tokens, size_t first, Names& bound) {
  const auto end = std::find_if(tokens.begin() + static_cast<long>(first), tokens.end(), [](const PythonToken& token) {
    return token.kind == PythonToken::kNewline || token.text == "in" || token.text == "for";
  });
  if (end != tokens.end() && end->text == "in")
    bind_targets(tokens, first, static_cast<size_t>(end - tokens.begin()), bound);
}

// Up to the last `=` of the line outside of brackets: `a = b, c = f()`.
size_t end_of_targets(const Tokens& tokens, size_t first) {
  size_t end = first;
  int depth = 0;
  for (size_t i = first; i < tokens.size() && tokens[i].kind != PythonToken::kNewline; ++i) {
    depth += opens(tokens[i]) - closes(tokens[i]);
    const std::string_view text = tokens[i].text;
    if (depth != 0 || tokens[i].kind != PythonToken::kOperator) continue;
    if (text == "=" || (text.size() == 2 && text[1] == '=' && std::string_view("+-*/%&|^@").find(text[0]) < 9)) end = i;
    else if (text == ":" && end == first && tokens[first].kind == PythonToken::kName && i == first + 1) end = i;
  }
  return end;
}

Names bound_names(const Tokens& tokens) {
  Names bound;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind == PythonToken::kNewline && i + 1 < tokens.size() && !is_keyword(tokens[i + 1].text)) {
      bind_targets(tokens, i + 1, end_of_targets(tokens, i + 1), bound);
    }
    if (tokens[i].kind != PythonToken::kName || i + 1 >= tokens.size()) continue;
    const std::string_view word = tokens[i].text;
    if (word == "def" || word == "class") {
      bound.insert(tokens[i + 1].text);
      if (word == "def" && is(tokens, i + 2, '(')) bind_parameters(tokens, i + 3, word, ")", bound);
    } else if (word == "lambda") {
      bind_parameters(tokens, i + 1, word, ":", bound);
    } else if (word == "as" && tokens[i + 1].kind == PythonToken::kName) {
      bound.insert(tokens[i + 1].text);
    } else if (word == "for") {
      bind_loop(tokens, i + 1, bound);
    }
  }
  return bound;
}

// A line that is one string says nothing.
bool is_docstring(const Tokens& tokens, size_t i) {
  return tokens[i].kind == PythonToken::kString && i > 0 && tokens[i - 1].kind == PythonToken::kNewline &&
         (i + 1 == tokens.size() || tokens[i + 1].kind == PythonToken::kNewline);
}

}  // namespace

std::vector<PythonToken> python_tokens(std::string_view source) { return Lexer(source).run(); }

std::vector<uint64_t> normal_form(std::string_view source) {
  const Tokens tokens = python_tokens(source);
  const Names bound = bound_names(tokens);
  std::unordered_map<std::string_view, uint64_t> numbers;
  std::vector<size_t> indents;  // of the lines that are open
  std::vector<uint64_t> form;
  form.reserve(tokens.size());
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const PythonToken& token = tokens[i];
    if (token.kind == PythonToken::kNewline) {
      if (i + 1 < tokens.size() && is_docstring(tokens, i + 1)) {
        ++i;
        continue;
      }
      while (!indents.empty() && indents.back() > token.text.size()) indents.pop_back();
      if (indents.empty() || indents.back() < token.text.size()) indents.push_back(token.text.size());
      form.push_back(Rng::derive(1, indents.size()));
      continue;
    }
    depth += opens(token) - closes(token);
    const bool attribute = i > 0 && is(tokens[i - 1], '.');
    const bool keyword = depth > 0 && is(tokens, i + 1, '=');  // f(dim=1)
    if (token.kind == PythonToken::kName && !attribute && !keyword && bound.contains(token.text))
      form.push_back(Rng::derive(2, numbers.emplace(token.text, numbers.size()).first->second));
    else form.push_back(Rng::derive(3, token.text));
  }
  return form;
}

std::string rename_names(std::string_view source, const std::map<std::string, std::string, std::less<>>& names) {
  std::string out;
  const char* copied = source.data();
  const Tokens tokens = python_tokens(source);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto found = tokens[i].kind == PythonToken::kName ? names.find(tokens[i].text) : names.end();
    if (found == names.end() || (i > 0 && is(tokens[i - 1], '.'))) continue;
    out.append(copied, tokens[i].text.data());
    out += found->second;
    copied = tokens[i].text.data() + tokens[i].text.size();
  }
  return out.append(copied, source.data() + source.size());
}

bool has_name(std::string_view source, std::string_view name) {
  if (source.find(name) == std::string_view::npos) return false;
  const Tokens tokens = python_tokens(source);
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const PythonToken& token) { return token.kind == PythonToken::kName && token.text == name; });
}

}  // namespace tritonforge::dataset
