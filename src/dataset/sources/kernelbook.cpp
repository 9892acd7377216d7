#include "dataset/sources/kernelbook.h"

#include <algorithm>

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

// The constructor's parameters behind self, in their order.
std::vector<std::string> constructor_of(const Tokens& tokens, std::string_view entry) {
  size_t i = find_sequence(tokens, {"def", "__init__", "("}, find_sequence(tokens, {"class", entry}));
  i += 2;
  const auto items = i < tokens.size() ? items_in(tokens, i) : std::nullopt;
  std::vector<std::string> names;
  for (size_t k = 1; items && k < items->size(); ++k)
    names.emplace_back((*items)[k].substr(0, (*items)[k].find_first_of(" :=\n")));
  return names;
}

std::string unquoted(std::string_view text) {
  return text.size() >= 2 && (text[0] == '\'' || text[0] == '"') ? std::string(text.substr(1, text.size() - 2)) : "";
}

// `return [[a], {'b': c}]` of get_init_inputs as `return [a, c]`; unchanged where it has another form already. Why it
// cannot be said, or "".
std::string order_arguments(std::string& problem, std::string_view entry) {
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
  std::vector<std::string> arguments(positional->begin(), positional->end());
  const auto parameters = constructor_of(tokens, entry);
  std::map<std::string, std::string> values;
  for (const std::string_view item : *by_name) {
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) return "get_init_inputs is not understood";
    const std::string_view value = item.substr(colon + 1);
    values[unquoted(item.substr(0, colon))] = value.substr(std::min(value.find_first_not_of(" \n"), value.size()));
  }
  while (!values.empty() && arguments.size() < parameters.size()) {
    const auto found = values.find(parameters[arguments.size()]);
    if (found == values.end()) break;
    arguments.push_back(found->second);
    values.erase(found);
  }
  if (!values.empty()) return "arguments by name are not the constructor's next ones";
  const std::string said = fmt::format("[{}]", fmt::join(arguments, ", "));
  const size_t first = static_cast<size_t>(tokens[list].text.data() - problem.data());
  problem.replace(first, static_cast<size_t>(end - tokens[list].text.data()), said);
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
    return row;
  }

 private:
  static std::vector<WantedColumn> wanted(const KernelBookColumns& names) {
    return {{names.python_code, ColumnKind::kText},
            {names.triton_code, ColumnKind::kText},
            {names.entry_point, ColumnKind::kText},
            {names.uuid, ColumnKind::kJson, /*required=*/false},
            {names.licenses, ColumnKind::kJson, /*required=*/false},
            {names.repo_name, ColumnKind::kJson, /*required=*/false}};
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
  if (const std::string why = order_arguments(row.problem, entry); !why.empty()) return row.drop("convert", why);
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
