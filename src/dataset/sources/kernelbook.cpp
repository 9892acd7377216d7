#include "dataset/sources/kernelbook.h"

#include <algorithm>

#include "base/text.h"
#include "dataset/similarity/python_tokens.h"

namespace tritonforge::dataset {
namespace {

using Tokens = std::vector<PythonToken>;

bool opens(std::string_view text) { return text == "(" || text == "[" || text == "{"; }
bool closes(std::string_view text) { return text == ")" || text == "]" || text == "}"; }

// The texts between the commas of the bracket that opens at `i`; `i` is then behind it. Nothing where it is not closed.
std::optional<std::vector<std::string_view>> items_in(const Tokens& tokens, size_t& i) {
  std::vector<std::string_view> items;
  const char* begin = nullptr;
  const char* end = nullptr;
  int depth = 0;
  for (; i < tokens.size(); ++i) {
    const std::string_view text = tokens[i].text;
    if (closes(text) && --depth == 0) {
      if (begin != nullptr) items.emplace_back(begin, static_cast<size_t>(end - begin));
      ++i;
      return items;
    }
    if (depth == 1 && text == "," && begin != nullptr) {
      items.emplace_back(begin, static_cast<size_t>(end - begin));
      begin = nullptr;
    } else if (depth > 0) {
      if (begin == nullptr) begin = text.data();
      end = text.data() + text.size();
    }
    if (opens(text)) ++depth;
  }
  return std::nullopt;
}

size_t find_sequence(const Tokens& tokens, std::initializer_list<std::string_view> texts, size_t from = 0) {
  const auto found = std::search(tokens.begin() + static_cast<long>(from), tokens.end(), texts.begin(), texts.end(),
                                 [](const PythonToken& token, std::string_view text) { return token.text == text; });
  return static_cast<size_t>(found - tokens.begin());
}

struct Parameter {
  std::string name;
  std::optional<std::string> value;  // its default
};

// A constructor's parameters behind self.
struct Constructor {
  std::vector<Parameter> parameters;
  std::optional<size_t> star;  // how many of them stand before `*`
  bool any = false;            // it takes *args or **options
};

Parameter parameter_of(std::string_view item) {
  Parameter parameter{.name = std::string(item.substr(0, item.find_first_of(" :=\n")))};
  int depth = 0;
  for (const PythonToken& token : python_tokens(item)) {
    depth += opens(token.text) - closes(token.text);
    if (depth > 0 || token.text != "=") continue;
    parameter.value = trimmed(item.substr(static_cast<size_t>(token.text.data() - item.data()) + 1));
    break;
  }
  return parameter;
}

std::vector<std::string_view> constructor_items(const Tokens& tokens, std::string_view entry) {
  size_t i = find_sequence(tokens, {"def", "__init__", "("}, find_sequence(tokens, {"class", entry}));
  i += 2;
  const auto items = i < tokens.size() ? items_in(tokens, i) : std::nullopt;
  return items.value_or(std::vector<std::string_view>{});
}

Constructor constructor_of(const Tokens& tokens, std::string_view entry) {
  Constructor found;
  const auto items = constructor_items(tokens, entry);
  for (size_t k = 1; k < items.size(); ++k) {
    if (items[k] == "*") found.star = found.parameters.size();
    else if (items[k].starts_with("*")) found.any = true;
    else if (items[k] != "/" && !found.any) found.parameters.push_back(parameter_of(items[k]));
  }
  return found;
}

// Without the `*` of `entry`'s constructor, so that all arguments may be given in order.
void drop_star(std::string& source, std::string_view entry) {
  const Tokens tokens = python_tokens(source);
  const auto items = constructor_items(tokens, entry);
  for (size_t k = 0; k + 1 < items.size(); ++k) {
    if (items[k] != "*") continue;
    source.erase(static_cast<size_t>(items[k].data() - source.data()),
                 static_cast<size_t>(items[k + 1].data() - items[k].data()));
    return;
  }
}

std::string unquoted(std::string_view text) {
  return text.size() >= 2 && (text[0] == '\'' || text[0] == '"') ? std::string(text.substr(1, text.size() - 2)) : "";
}

// `given` by name, behind the positional `arguments` in the constructor's order, with the defaults of what stands
// between. Why that cannot be, or "".
std::string add_in_order(std::vector<std::string>& arguments, std::map<std::string, std::string> given,
                         const Constructor& constructor) {
  const auto& parameters = constructor.parameters;
  while (!given.empty() && arguments.size() < parameters.size()) {
    const Parameter& next = parameters[arguments.size()];
    const auto found = given.find(next.name);
    if (found == given.end() && !next.value) break;
    arguments.push_back(found == given.end() ? *next.value : found->second);
    if (found != given.end()) given.erase(found);
  }
  if (given.empty()) return "";
  return constructor.any ? "the constructor takes arguments that it does not name"
                         : "arguments by name are not the constructor's next ones";
}

// `return [[a], {'b': c}]` of get_init_inputs as `return [a, c]`; unchanged where it has another form already. Why it
// cannot be said, or "".
std::string order_arguments(Row& row) {
  std::string& problem = row.problem;
  const Tokens tokens = python_tokens(problem);
  size_t i = find_sequence(tokens, {"def", "get_init_inputs", "("});
  if (i == tokens.size()) return "no get_init_inputs";
  i = find_sequence(tokens, {"return", "[", "["}, i) + 1;
  if (i >= tokens.size()) return "";
  const size_t list = i;
  const auto parts = items_in(tokens, i);
  if (!parts || parts->size() != 2 || !parts->back().starts_with("{")) return "";
  const char* end = tokens[i - 1].text.data() + 1;
  size_t at = list + 1;
  const auto positional = items_in(tokens, at);
  size_t by_name_at = at + 1;
  const auto by_name = items_in(tokens, by_name_at);
  if (!positional || !by_name) return "get_init_inputs is not understood";
  std::map<std::string, std::string> given;
  for (const std::string_view item : *by_name) {
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) return "get_init_inputs is not understood";
    given[unquoted(item.substr(0, colon))] = trimmed(item.substr(colon + 1));
  }
  std::vector<std::string> arguments(positional->begin(), positional->end());
  const Constructor constructor = constructor_of(tokens, row.entry_point);
  const auto& parameters = constructor.parameters;
  if (const std::string why = add_in_order(arguments, std::move(given), constructor); !why.empty()) return why;
  const bool by_name_alone = constructor.star && arguments.size() > *constructor.star;
  const auto has_default = [](const Parameter& parameter) { return parameter.value.has_value(); };
  const auto first = std::find_if(parameters.begin(), parameters.end(), has_default);
  if (by_name_alone && !std::all_of(first, parameters.end(), has_default))
    return "arguments by name alone stand behind defaults";
  const std::string said = fmt::format("[{}]", fmt::join(arguments, ", "));
  const size_t place = static_cast<size_t>(tokens[list].text.data() - problem.data());
  problem.replace(place, static_cast<size_t>(end - tokens[list].text.data()), said);
  if (by_name_alone) {
    drop_star(problem, row.entry_point);
    drop_star(row.solution, row.entry_point + "New");
  }
  return "";
}

constexpr const char* kHelper = "_mock_config";

// The class of KernelBook's helper module, in the place of its import: a configuration whose keys are attributes, too.
// A name of that module that is not there, or "".
std::string define_helper(std::string& source) {
  const Tokens tokens = python_tokens(source);
  const size_t first = find_sequence(tokens, {"from", "_paritybench_helpers", "import"});
  if (first == tokens.size()) return "";
  size_t last = first + 3;
  for (; last < tokens.size() && tokens[last].kind != PythonToken::kNewline; ++last) {
    if (tokens[last].kind == PythonToken::kName && tokens[last].text != kHelper) return std::string(tokens[last].text);
  }
  const size_t begin = static_cast<size_t>(tokens[first].text.data() - source.data());
  const std::string_view end = tokens[last - 1].text;
  const auto used = std::count_if(tokens.begin(), tokens.end(), [](auto& token) { return token.text == kHelper; });
  source.replace(begin, static_cast<size_t>(end.data() + end.size() - source.data()) - begin, "");
  if (source.substr(begin).starts_with("\n")) source.erase(begin, 1);
  if (used < 2) return "";
  const bool taken = has_name(source, "Config");
  if (!taken) source = rename_names(source, {{kHelper, "Config"}});
  const std::string text = fmt::format("class {}(dict):\n    __getattr__ = dict.__getitem__\n\n\n",
                                       taken ? kHelper : "Config");
  const size_t place = source.find("def get_init_inputs");
  source.insert(place == std::string::npos ? begin : place, text);
  return "";
}

class KernelBook : public Source {
 public:
  explicit KernelBook(const KernelBookOptions& options)
      : columns_(options.columns),
        records_(files_of(options.path, {".parquet", ".jsonl"}), wanted(options.columns),
                 "a column of another name is said by the source's option 'columns' (columns: {python_code: NAME})") {}

  std::vector<fs::path> files() const override { return records_.files(); }

  std::optional<Row> next() override {
    auto record = records_.next();
    if (!record) return std::nullopt;
    Row row;
    row.place = record->place;
    if (!record->problem.empty()) {
      row.drop("read", record->problem);
      return row;
    }
    row.problem = text(row, record->value, columns_.python_code);
    row.solution = text(row, record->value, columns_.triton_code);
    row.entry_point = text(row, record->value, columns_.entry_point);
    row.uuid = plain(record->value, columns_.uuid);
    row.licence = plain(record->value, columns_.licenses);
    row.repository = plain(record->value, columns_.repo_name);
    if (const auto stars = record->value.find(columns_.stars); stars != record->value.end() && stars->is_number())
      row.stars = stars->get<int64_t>();
    return row;
  }

 private:
  static std::vector<WantedColumn> wanted(const KernelBookColumns& names) {
    return {{names.python_code, ColumnKind::kText},
            {names.triton_code, ColumnKind::kText},
            {names.entry_point, ColumnKind::kText},
            {names.uuid, ColumnKind::kJson, /*required=*/false},
            {names.licenses, ColumnKind::kJson, /*required=*/false},
            {names.repo_name, ColumnKind::kJson, /*required=*/false},
            {names.stars, ColumnKind::kJson, /*required=*/false}};
  }

  static std::string text(Row& row, OrderedJson& record, const std::string& name) {
    const auto found = record.find(name);
    if (found != record.end() && found->is_string()) return std::move(found->get_ref<std::string&>());
    row.drop("read", found == record.end() || found->is_null() ? fmt::format("'{}' is null", name)
                                                               : fmt::format("'{}' is no text", name));
    return "";
  }

  // A text, a number, or a list of texts with commas between.
  static std::string plain(const OrderedJson& record, const std::string& name) {
    const auto found = record.find(name);
    if (found == record.end() || found->is_null()) return "";
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_array()) return found->dump();
    std::string joined;
    for (const OrderedJson& entry : *found)
      joined += (joined.empty() ? "" : ", ") + (entry.is_string() ? entry.get<std::string>() : entry.dump());
    return joined;
  }

  KernelBookColumns columns_;
  Records records_;
};

}  // namespace

void take_kernelbook_form(Row& row) {
  const std::string& entry = row.entry_point;
  if (!has_name(row.problem, entry)) return row.drop("convert", "the entry point is not in the module", entry);
  for (std::string* source : {&row.problem, &row.solution}) {
    if (const std::string name = define_helper(*source); !name.empty())
      return row.drop("convert", "a helper of KernelBook's makers that is not in the row", name);
  }
  if (const std::string why = order_arguments(row); !why.empty()) return row.drop("convert", why);
  if (entry != "Model") {
    if (has_name(row.problem, "Model") || has_name(row.solution, "ModelNew"))
      return row.drop("convert", "the name Model is taken", entry);
    row.problem = rename_names(row.problem, {{entry, "Model"}});
    row.solution = rename_names(row.solution, {{entry + "New", "ModelNew"}});
  }
  if (!has_name(row.solution, "ModelNew")) return row.drop("convert", "the solution does not define its class", entry);
  row.entry_point.clear();
}

std::unique_ptr<Source> make_kernelbook(const KernelBookOptions& options) {
  return std::make_unique<KernelBook>(options);
}

}  // namespace tritonforge::dataset
