#include "dataset/template_file.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace tritonforge::dataset {
namespace {

constexpr std::string_view kSizes = "_SIZES_", kEpilogue = "EPILOGUE";

bool in_identifier(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

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
    std::map<std::string, TemplateFamily::Said, std::less<>> said;
  };

  const TemplateForm& form;
  std::string_view name;
  Declarations common;
  std::vector<Declarations> families;
  std::map<std::string_view, std::vector<Line>> texts;
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
    if (!line.text.starts_with("#")) fail_at(line, "not a declaration; the texts come after '{}'", mark_of(0));
    const auto [left, value] = parted(line.text.substr(1), ":");
    const auto [key, subject] = parted(left, " ");
    auto& target = families.empty() ? common : families.back();
    if (std::find(form.keys.begin(), form.keys.end(), key) != form.keys.end()) {
      target.said[std::string(key)] = {std::string(value), fmt::format("{}:{}", name, line.number)};
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
      std::vector<std::string> known{"epilogue", "family", "choose", "set"};
      known.insert(known.end(), form.keys.begin(), form.keys.end());
      fail_at(line, "unknown declaration '{}'{}", key, nearest_hint(std::string(key), known));
    }
  }

  std::string mark_of(size_t text) const { return fmt::format("# --- {} ---", form.texts[text].name); }

  // The place among the form's texts of the one that begins with this line; their number where none does.
  size_t text_at(const Line& line) const {
    size_t at = 0;
    while (at < form.texts.size() && line.text != mark_of(at)) ++at;
    return at;
  }

  void parse(std::string_view text) {
    const auto lines = lines_of(text);
    const Line last{static_cast<int>(lines.size()), {}};
    const size_t none = form.texts.size();
    auto line = lines.begin();

    // Prose, up to the first line that is no comment.
    while (line != lines.end() && line->text.starts_with("#") && text_at(*line) == none) ++line;
    // Declarations.
    for (; line != lines.end() && text_at(*line) == none; ++line) {
      if (!trimmed(line->text).empty()) declare(*line);
    }
    const auto first = line;
    // The texts.
    std::map<size_t, Line> marks;
    for (std::vector<Line>* part = nullptr; line != lines.end(); ++line) {
      const size_t at = text_at(*line);
      if (at == none) {
        part->push_back(*line);
        continue;
      }
      for (size_t missing = marks.empty() ? 0 : marks.rbegin()->first + 1; missing < at; ++missing) {
        if (form.texts[missing].required) fail_at(*line, "'{}' comes first", mark_of(missing));
      }
      if (!marks.empty() && marks.rbegin()->first >= at) fail_at(*line, "'{}' comes too late", line->text);
      marks[at] = *line;
      part = &texts[form.texts[at].name];
    }
    for (size_t at = 0; at < none; ++at) {
      if (form.texts[at].required && !marks.contains(at)) fail_at(last, "no line '{}'", mark_of(at));
    }
    for (const auto& key : form.required_keys) {
      if (!common.said.contains(key)) fail_at(*first, "no declaration '{}' before the texts", key);
    }
    for (const auto& [at, mark] : marks) {
      auto& part = texts[form.texts[at].name];
      while (!part.empty() && trimmed(part.back().text).empty()) part.pop_back();
      if (part.empty()) fail_at(mark, "an empty text");
    }
  }

  TemplateFamily family(const Declarations& own, std::string family_name) const {
    TemplateFamily made{.name = std::move(family_name),
                        .choices = {},
                        .texts = {},
                        .said = own.said,
                        .min_epilogue = min_epilogue,
                        .max_epilogue = max_epilogue};
    made.said.insert(common.said.begin(), common.said.end());
    std::set<std::string, std::less<>> names{std::string(kEpilogue), "SIZES"}, used;
    names.insert(form.given.begin(), form.given.end());
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

    // What is set may hold placeholders, too.
    const std::function<std::string(const Line&, std::string_view, int)> filled =
        [&](const Line& line, std::string_view from, int depth) {
          return fill_placeholders(from, [&](std::string_view placeholder) -> std::string {
            if (placeholder == kEpilogue) fail_at(line, "an epilogue is a line 'x = _EPILOGUE_(x)'");
            if (placeholder == "SIZES") fail_at(line, "_SIZES_ is a line of its own without indentation");
            if (!names.contains(placeholder)) {
              fail_at(line, "_{}_ is not declared{}", placeholder,
                      nearest_hint(std::string(placeholder), {names.begin(), names.end()}));
            }
            used.emplace(placeholder);
            for (const auto& [key, value] : fixed) {
              if (key != placeholder) continue;
              if (depth == 4) fail_at(line, "_{}_ is set to what is set, five deep", placeholder);
              return filled(line, value, depth + 1);
            }
            return fmt::format("_{}_", placeholder);
          });
        };
    const auto expanded = [&](const std::vector<Line>& lines, bool may_have_epilogue) {
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
          if (max_epilogue == 0 || !may_have_epilogue) fail_at(line, "an epilogue, and no declaration 'epilogue'");
          has_epilogue = true;
          text.append(line.text).append("\n");
          continue;
        }
        text += filled(line, line.text, /*depth=*/0);
        text += '\n';
      }
      if (max_epilogue > 0 && may_have_epilogue && !has_epilogue)
        fail_at(lines.back(), "this text has no line 'x = _EPILOGUE_(x)'");
      return text;
    };
    for (const auto& text : form.texts) {
      if (const auto lines = texts.find(text.name); lines != texts.end())
        made.texts[std::string(text.name)] = expanded(lines->second, text.has_epilogue);
    }

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

std::vector<TemplateFamily> parse_template_file(const TemplateForm& form, std::string_view name,
                                                std::string_view text) {
  Parser parser{.form = form, .name = name, .common = {}, .families = {}, .texts = {}};
  parser.parse(text);
  std::vector<TemplateFamily> families;
  for (const auto& family : parser.families) families.push_back(parser.family(family, family.family));
  if (families.empty()) families.push_back(parser.family({}, std::string(name.substr(0, name.rfind('.')))));
  return families;
}

}  // namespace tritonforge::dataset
