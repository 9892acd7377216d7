#include "cli/flags.h"

#include <algorithm>

namespace tritonforge::cli {
namespace {

std::vector<OptionValue> parsed(const Option& option, const std::vector<std::string>& texts, const std::string& flag) {
  std::vector<OptionValue> values;
  for (const std::string& text : texts) {
    auto value = parse_value(option.kind, text);
    if (!value) fail(ErrorKind::kUsage, "{} must be {}, not '{}'", flag, expected(option.kind), text);
    values.push_back(std::move(*value));
  }
  return values;
}

const char* placeholder(const Option& option) {
  switch (option.kind) {
    case OptionKind::kInteger: return "INT";
    case OptionKind::kNumber: return "NUMBER";
    default: return "TEXT";
  }
}

}  // namespace

void add_flag(CLI::App& command, const Option& option) {
  TF_CHECK(option.kind != OptionKind::kSection, "'{}' is a section and no flag", option.name);
  const std::string flag = flag_of(option);
  if (option.kind == OptionKind::kBool) {
    const bool given = !std::get<bool>(option.get().at(0));
    const std::string help = given ? option.help : "without it: " + option.help;
    command.add_flag_callback(flag, [option, given] { option.put({given}); }, help);
    return;
  }
  const std::string allowed = option.allowed();
  const char* how_several = !option.list ? "" : option.commas ? "; several with commas" : "; given once for each";
  const std::string help = option.help + how_several + (allowed.empty() ? "" : fmt::format(" ({})", allowed));
  CLI::Option* made = nullptr;
  if (option.list) {
    made = command.add_option_function<std::vector<std::string>>(
        flag, [option, flag](const auto& texts) { option.set(parsed(option, texts, flag), flag); }, help);
    made->allow_extra_args(false);
    if (option.commas) made->delimiter(',');
  } else {
    made = command.add_option_function<std::string>(
        flag, [option, flag](const std::string& text) { option.set(parsed(option, {text}, flag), flag); }, help);
  }
  const std::string standing = option.get().empty() ? "" : text_of(option);
  made->type_name(standing.empty() ? placeholder(option) : fmt::format("{} [{}]", placeholder(option), standing));
  made->required(option.required);
}

void add_flags(CLI::App& command, const OptionList& list, const std::vector<std::string>& without) {
  for (const Option& option : list.options()) {
    if (std::find(without.begin(), without.end(), option.name) == without.end()) add_flag(command, option);
  }
}

}  // namespace tritonforge::cli
