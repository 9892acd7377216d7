#include "base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tritonforge {
namespace {

std::string shown_list(const std::vector<std::string>& texts) { return fmt::format("[{}]", fmt::join(texts, ", ")); }

std::vector<std::string> texts_of(const std::vector<OptionValue>& values) {
  std::vector<std::string> texts;
  for (const OptionValue& value : values) texts.push_back(text_of(value));
  return texts;
}

std::string formed(const Option& option, const std::string& text, const std::string& shown) {
  if (!option.form || text.empty()) return text;
  try {
    return option.form(text);
  } catch (const Error& error) {
    fail(ErrorKind::kUsage, "{}: {}", shown, error.what());
  }
}

bool within(double value, const Option& option) {
  if (option.low && !(option.low->inclusive ? value >= option.low->value : value > option.low->value)) return false;
  return !option.high || (option.high->inclusive ? value <= option.high->value : value < option.high->value);
}

void check_one(const Option& option, const OptionValue& value, const std::string& shown) {
  const auto refuse = [&](const std::string& rule) {
    fail(ErrorKind::kUsage, "{} must be {}, not {}", shown, rule, text_of(value));
  };
  switch (option.kind) {
    case OptionKind::kBool: return;
    case OptionKind::kInteger: {
      const int64_t number = std::get<int64_t>(value);
      if (!within(static_cast<double>(number), option)) refuse(option.allowed());
      return;
    }
    case OptionKind::kNumber: {
      const double number = std::get<double>(value);
      if (!std::isfinite(number)) refuse("a finite number");
      if (!within(number, option)) refuse(option.allowed());
      return;
    }
    case OptionKind::kText: {
      const auto& text = std::get<std::string>(value);
      if (!option.names.empty() && std::find(option.names.begin(), option.names.end(), text) == option.names.end())
        fail(ErrorKind::kUsage, "{}: unknown value '{}'{}", shown, text, nearest_hint(text, option.names));
      formed(option, text, shown);
      return;
    }
    case OptionKind::kSection: break;
  }
  TF_CHECK(false, "{} is a section and has no value", option.name);
}

std::vector<OptionValue> values_from(const OptionSource& source, const Option& option, const std::string& path) {
  const auto wrong = [](const OptionSource& node, const std::string& where, const char* wanted) {
    fail(ErrorKind::kUsage, "'{}' must be {}, not '{}'", where, wanted, node.shown());
  };
  std::vector<OptionValue> values;
  const auto add = [&](const OptionSource& node, const std::string& where) {
    auto value = node.value(option.kind);
    if (!value) wrong(node, where, expected(option.kind));
    values.push_back(std::move(*value));
  };
  if (!option.list) {
    add(source, path);
    return values;
  }
  if (!source.is_list()) wrong(source, path, "a list");
  const auto entries = source.entries();
  for (size_t i = 0; i < entries.size(); ++i) add(*entries[i], fmt::format("{}[{}]", path, i));
  return values;
}

void read_option(const OptionSource& source, const Option& option, const std::string& path, const char* noun) {
  if (source.is_null() && source.null_is_default()) return;
  if (option.kind == OptionKind::kSection) {
    if (option.hidden) fail(ErrorKind::kUsage, "'{}' is decided by the run: a recipe has no {} for it", path, noun);
    read_options(source, *option.section, path + ".", noun);
    return;
  }
  auto values = values_from(source, option, path);
  if (option.hidden) {
    if (values != option.get())
      fail(ErrorKind::kUsage, "'{}' is decided by the run: a recipe has no {} for it", path, noun);
    return;
  }
  option.set(std::move(values), fmt::format("'{}'", path));
}

}  // namespace

OptionRule at_least(double low) {
  return [low](Option& option) { option.low = Option::Bound{low, true}; };
}
OptionRule above(double low) {
  return [low](Option& option) { option.low = Option::Bound{low, false}; };
}
OptionRule at_most(double high) {
  return [high](Option& option) { option.high = Option::Bound{high, true}; };
}
OptionRule below(double high) {
  return [high](Option& option) { option.high = Option::Bound{high, false}; };
}
OptionRule in(double low, double high) {
  return [low, high](Option& option) {
    option.low = Option::Bound{low, true};
    option.high = Option::Bound{high, true};
  };
}
OptionRule one_of(std::vector<std::string> names) {
  return [names = std::move(names)](Option& option) { option.names = names; };
}
OptionRule in_form(std::function<std::string(const std::string& text)> form) {
  return [form = std::move(form)](Option& option) { option.form = form; };
}
OptionRule required() {
  return [](Option& option) { option.required = true; };
}
OptionRule spelled(std::string flag) {
  return [flag = std::move(flag)](Option& option) { option.flag = flag; };
}
OptionRule commas() {
  return [](Option& option) { option.commas = true; };
}
OptionRule by_run() {
  return [](Option& option) { option.by_run = true; };
}
OptionRule in_recipe() {
  return [](Option& option) {
    for (Option& inner : option.section->options()) {
      if (inner.by_run) inner.hidden = true;
      else if (inner.kind == OptionKind::kSection) in_recipe()(inner);
    }
  };
}

std::string text_of(const OptionValue& value) {
  return std::visit([](const auto& held) { return fmt::format("{}", held); }, value);
}

std::string text_of(const Option& option) {
  const auto texts = texts_of(option.get());
  return option.list ? shown_list(texts) : texts.at(0);
}

const char* expected(OptionKind kind) {
  switch (kind) {
    case OptionKind::kBool: return "true or false";
    case OptionKind::kInteger: return "an integer";
    case OptionKind::kNumber: return "a number";
    case OptionKind::kText: return "a text";
    case OptionKind::kSection: return "a mapping";
  }
  return "";
}

std::string Option::allowed() const {
  if (!names.empty()) {
    std::vector<std::string> words = names;
    std::erase(words, "");
    return fmt::format("{}", fmt::join(words, " | "));
  }
  if (low && high && low->inclusive && high->inclusive)
    return fmt::format("between {} and {}", low->value, high->value);
  std::string text;
  if (low) text = fmt::format("{} {}", low->inclusive ? "at least" : "above", low->value);
  if (high) text += fmt::format("{}{} {}", low ? " and " : "", high->inclusive ? "at most" : "below", high->value);
  return text;
}

void Option::check(const std::vector<OptionValue>& values, const std::string& shown) const {
  TF_CHECK(list || values.size() == 1, "{} takes one value, not {}", name, values.size());
  for (const OptionValue& value : values) check_one(*this, value, shown);
}

void Option::set(std::vector<OptionValue> values, const std::string& shown) const {
  check(values, shown);
  for (const OptionValue& value : values) {
    const auto* number = std::get_if<int64_t>(&value);
    if (number && (*number < smallest || *number > largest))
      fail(ErrorKind::kUsage, "{} must be between {} and {}, not {}", shown, smallest, largest, *number);
  }
  for (OptionValue& value : values) {
    if (auto* text = std::get_if<std::string>(&value)) *text = formed(*this, *text, shown);
  }
  put(std::move(values));
}

std::vector<std::string> OptionList::names() const {
  std::vector<std::string> names;
  for (const Option& option : options_) {
    if (!option.hidden) names.push_back(option.name);
  }
  return names;
}

void OptionList::append(const OptionList& part) {
  options_.insert(options_.end(), part.options_.begin(), part.options_.end());
  validators_.insert(validators_.end(), part.validators_.begin(), part.validators_.end());
}

void OptionList::validate(const std::string& path) const {
  for (const Option& option : options_) {
    if (option.kind == OptionKind::kSection) option.section->validate(path + option.name + ".");
    else option.check(option.get(), fmt::format("'{}{}'", path, option.name));
  }
  finish(path);
}

void OptionList::finish(const std::string& path) const {
  for (const Option& option : options_) {
    if (option.required && !option.hidden && text_of(option).empty())
      fail(ErrorKind::kUsage, "'{}{}' is missing", path, option.name);
  }
  for (const auto& validator : validators_) validator();
}

void read_options(const OptionSource& source, const OptionList& list, const std::string& path, const char* noun) {
  const std::string section = path.empty() ? "" : path.substr(0, path.size() - 1);
  if (!source.is_null() && !source.is_map()) {
    fail(ErrorKind::kUsage, "{} must be a mapping, not '{}'",
         section.empty() ? "the content" : fmt::format("'{}'", section), source.shown());
  }
  if (source.is_map()) {
    for (const std::string& key : source.keys()) {
      const auto known = std::find_if(list.options().begin(), list.options().end(),
                                      [&](const Option& option) { return option.name == key; });
      if (known == list.options().end())
        fail(ErrorKind::kUsage, "unknown {} '{}{}'{}", noun, path, key, nearest_hint(key, list.names()));
      const auto child = source.find(key);
      read_option(*child, *known, path + key, noun);
    }
  }
  list.finish(path);
}

std::string flag_of(const Option& option) {
  std::string name = option.flag;
  if (name.empty()) {
    name = option.name.ends_with("_s") ? option.name.substr(0, option.name.size() - 2) : option.name;
    std::replace(name.begin(), name.end(), '_', '-');
  }
  const bool turns_off = option.kind == OptionKind::kBool && std::get<bool>(option.get().at(0));
  return (turns_off ? "--no-" : "--") + name;
}

std::optional<OptionValue> parse_value(OptionKind kind, const std::string& text) {
  const auto number = [&](auto value) -> std::optional<OptionValue> {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return OptionValue(value);
  };
  switch (kind) {
    case OptionKind::kInteger: return number(int64_t{});
    case OptionKind::kNumber: return number(double{});
    case OptionKind::kText: return OptionValue(text);
    case OptionKind::kBool:
      if (text == "true" || text == "false") return OptionValue(text == "true");
      return std::nullopt;
    case OptionKind::kSection: break;
  }
  return std::nullopt;
}

namespace detail {

std::vector<std::string> flags_that_differ(const OptionList& list, const OptionList& defaults) {
  std::vector<std::string> arguments;
  for (size_t i = 0; i < list.options().size(); ++i) {
    const Option& option = list.options()[i];
    const auto values = option.get();
    if (values == defaults.options()[i].get()) continue;
    const std::string flag = flag_of(defaults.options()[i]);
    if (option.kind == OptionKind::kBool) {
      arguments.push_back(flag);
      continue;
    }
    for (const OptionValue& value : values) arguments.insert(arguments.end(), {flag, text_of(value)});
  }
  return arguments;
}

}  // namespace detail
}  // namespace tritonforge
