#include "dataset/family_file.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

constexpr std::string_view kProblemMark = "# --- problem ---", kSolutionMark = "# --- solution ---";
constexpr std::string_view kSizes = "_SIZES_", kEpilogue = "EPILOGUE";

bool in_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// What is before and after the first `mark`, trimmed; the second part is empty where there is no mark.
std::pair<std::string_view, std::string_view> parted(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {trimmed(text), {}};
  return {trimmed(text.substr(0, at)), trimmed(text.substr(at + mark.size()))};
}

struct Line {
  int number = 0;
  std::string_view text;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back({static_cast<int>(lines.size()) + 1, text.substr(0, end)});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Parser {
  // `choose` and `set` of one family, or of all of the file.
  struct Declarations {
    Line at;
    std::string family;
    std::vector<std::pair<Choice, Line>> choices;
    std::vector<std::pair<std::pair<std::string, std::string>, Line>> fixed;
  };

  std::string_view name;
  Declarations common;
  std::vector<Declarations> families;
  std::vector<Line> problem, solution;
  int order = 0;
  size_t min_epilogue = 0, max_epilogue = 0;

  template <typename... Args>
  [[noreturn]] void fail_at(const Line& line, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kCorrupt, "{}:{}: {}", name, line.number, fmt::format(format, std::forward<Args>(args)...));
  }

  int number_in(const Line& line, std::string_view text, int most) const {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
      fail_at(line, "'{}' is not a number in 0..{}", text, most);
    }
    return value;
  }

  void check_name(const Line& line, std::string_view word) const {
    if (word.empty() || !std::all_of(word.begin(), word.end(), in_identifier))
      fail_at(line, "'{}' is not a name", word);
  }

  void declare(const Line& line) {
    if (!line.text.starts_with("#")) fail_at(line, "not a declaration; the texts come after '{}'", kProblemMark);
    const auto [left, value] = parted(line.text.substr(1), ":");
    const auto [key, subject] = parted(left, " ");
    auto& target = families.empty() ? common : families.back();
    if (key == "order") {
      order = number_in(line, value, 1'000'000);
      if (order == 0) fail_at(line, "places are counted from 1");
    } else if (key == "epilogue") {
      const auto [low, high] = parted(value, "..");
      min_epilogue = static_cast<size_t>(number_in(line, low, 8));
      max_epilogue = static_cast<size_t>(number_in(line, high, 8));
      if (max_epilogue == 0 || min_epilogue > max_epilogue) fail_at(line, "'{}' is not LOW..HIGH", value);
    } else if (key == "family") {
      check_name(line, value);
      families.push_back({.at = line, .family = std::string(value)});
    } else if (key == "choose") {
      check_name(line, subject);
      Choice choice{std::string(subject), {}};
      for (auto rest = value;;) {
        const size_t bar = rest.find('|');
        choice.alternatives.emplace_back(trimmed(rest.substr(0, bar)));
        if (bar == std::string_view::npos) break;
        rest.remove_prefix(bar + 1);
      }
      if (value.empty()) fail_at(line, "'{}' has no alternatives", subject);
      target.choices.emplace_back(std::move(choice), line);
    } else if (key == "set") {
      check_name(line, subject);
      if (value.empty()) fail_at(line, "'{}' is set to nothing", subject);
      target.fixed.push_back({{std::string(subject), std::string(value)}, line});
    } else {
      const std::vector<std::string> known{"order", "epilogue", "family", "choose", "set"};
      fail_at(line, "unknown declaration '{}'{}", key, nearest_hint(std::string(key), known));
    }
  }

  void parse(std::string_view text) {
    const auto lines = lines_of(text);
    auto line = lines.begin();
    const auto at_end = [&] { return line == lines.end(); };
    const Line last{static_cast<int>(lines.size()), {}};

    // Prose, up to the first line that is no comment.
    while (!at_end() && line->text.starts_with("#") && line->text != kProblemMark) ++line;
    // Declarations.
    for (; !at_end() && line->text != kProblemMark; ++line) {
      if (line->text == kSolutionMark) fail_at(*line, "'{}' comes first", kProblemMark);
      if (!trimmed(line->text).empty()) declare(*line);
    }
    if (at_end()) fail_at(last, "no line '{}'", kProblemMark);
    if (order == 0) fail_at(*line, "no declaration 'order' before the texts");
    // The two texts.
    for (++line; !at_end() && line->text != kSolutionMark; ++line) problem.push_back(*line);
    if (at_end()) fail_at(last, "no line '{}'", kSolutionMark);
    const Line mark = *line;
    for (++line; !at_end(); ++line) solution.push_back(*line);
    for (auto* part : {&problem, &solution}) {
      while (!part->empty() && trimmed(part->back().text).empty()) part->pop_back();
      if (part->empty()) fail_at(mark, "an empty text");
    }
  }

  Special family(const Declarations& own, std::string family_name) const {
    Special made{.name = std::move(family_name), .min_epilogue = min_epilogue, .max_epilogue = max_epilogue};
    std::set<std::string, std::less<>> names{std::string(kEpilogue), "SIZES"}, used;
    std::vector<std::pair<std::string, std::string>> fixed;
    for (const auto* part : {&own, &common}) {
      for (const auto& [choice, line] : part->choices) {
        if (!names.insert(choice.name).second) fail_at(line, "'{}' is declared twice", choice.name);
        made.choices.push_back(choice);
      }
      for (const auto& [value, line] : part->fixed) {
        if (!names.insert(value.first).second) fail_at(line, "'{}' is declared twice", value.first);
        fixed.push_back(value);
      }
    }

    const auto expanded = [&](const std::vector<Line>& lines) {
      std::string text;
      bool has_epilogue = false;
      for (const auto& line : lines) {
        if (line.text == kSizes) {
          for (const auto& [choice, _] : own.choices) {
            text += fmt::format("{0} = _{0}_\n", choice.name);
            used.insert(choice.name);
          }
          continue;
        }
        if (!parse_epilogue_line(line.text).variable.empty()) {
          if (max_epilogue == 0) fail_at(line, "an epilogue, and no declaration 'epilogue'");
          has_epilogue = true;
          text.append(line.text).append("\n");
          continue;
        }
        text += fill_placeholders(line.text, [&](std::string_view placeholder) -> std::string {
          if (placeholder == kEpilogue) fail_at(line, "an epilogue is a line 'x = _EPILOGUE_(x)'");
          if (placeholder == "SIZES") fail_at(line, "_SIZES_ is a line of its own without indentation");
          if (!names.contains(placeholder)) {
            fail_at(line, "_{}_ is not declared{}", placeholder,
                    nearest_hint(std::string(placeholder), {names.begin(), names.end()}));
          }
          used.emplace(placeholder);
          for (const auto& [key, value] : fixed) {
            if (key == placeholder) return value;
          }
          return fmt::format("_{}_", placeholder);
        });
        text += '\n';
      }
      if (max_epilogue > 0 && !has_epilogue) fail_at(lines.back(), "this text has no line 'x = _EPILOGUE_(x)'");
      return text;
    };
    made.problem = expanded(problem);
    made.solution = expanded(solution);

    for (const auto* part : {&own, &common}) {
      for (const auto& [choice, line] : part->choices) {
        if (!used.contains(choice.name)) fail_at(line, "'{}' is used nowhere", choice.name);
      }
      for (const auto& [value, line] : part->fixed) {
        if (!used.contains(value.first)) fail_at(line, "'{}' is used nowhere", value.first);
      }
    }
    return made;
  }
};

}  // namespace

std::string fill_placeholders(std::string_view text, const std::function<std::string(std::string_view)>& value_of) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && in_identifier(text[end])) ++end;
    const auto word = text.substr(at, end - at);
    // One underscore at each end: __init__ is Python's.
    const bool placeholder = word.size() > 2 && word.front() == '_' && word.back() == '_' && word[1] != '_' &&
                             word[word.size() - 2] != '_';
    out += placeholder ? value_of(word.substr(1, word.size() - 2)) : std::string(word);
    if (end < text.size()) out += text[end++];
    at = end;
  }
  return out;
}

EpilogueLine parse_epilogue_line(std::string_view line) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const auto [variable, value] = parted(line.substr(indent), " = ");
  if (variable.empty() || value != fmt::format("_{}_({})", kEpilogue, variable)) return {};
  return {line.substr(0, indent), variable};
}

FamilyFile parse_family_file(std::string_view name, std::string_view text) {
  Parser parser{.name = name};
  parser.parse(text);
  FamilyFile file{.order = parser.order};
  for (const auto& family : parser.families) file.families.push_back(parser.family(family, family.family));
  if (file.families.empty()) file.families.push_back(parser.family({}, std::string(name.substr(0, name.rfind('.')))));
  return file;
}

std::vector<Special> parse_family_files(std::span<const std::pair<std::string_view, std::string_view>> files) {
  std::vector<std::pair<FamilyFile, std::string_view>> parsed;
  for (const auto& [name, text] : files) parsed.emplace_back(parse_family_file(name, text), name);
  std::sort(parsed.begin(), parsed.end(), [](const auto& a, const auto& b) { return a.first.order < b.first.order; });
  std::vector<Special> all;
  std::set<std::string> names;
  for (size_t i = 0; i < parsed.size(); ++i) {
    auto& [file, name] = parsed[i];
    if (i > 0 && file.order == parsed[i - 1].first.order) {
      fail(ErrorKind::kCorrupt, "{}: order {} is that of {} too", name, file.order, parsed[i - 1].second);
    }
    for (auto& family : file.families) {
      if (!names.insert(family.name).second) fail(ErrorKind::kCorrupt, "{}: a second family '{}'", name, family.name);
      all.push_back(std::move(family));
    }
  }
  return all;
}

}  // namespace tritonforge::dataset
