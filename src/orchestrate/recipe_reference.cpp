// docs/recipes.md, from the same declarations that the reader uses.
#include "orchestrate/recipe.h"

namespace tritonforge::orchestrate {
namespace {

// Table cells: a bar in a closed set would end the cell.
std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return text;
}

const char* type_of(const Option& option) {
  switch (option.kind) {
    case OptionKind::kBool: return "bool";
    case OptionKind::kInteger: return option.list ? "integers" : "integer";
    case OptionKind::kNumber: return option.list ? "numbers" : "number";
    default: return option.list ? "texts" : "text";
  }
}

// A section's own options as one table, then its sections.
void write_section(std::string& page, const OptionList& list, const std::string& path, const std::string& title) {
  page += path.empty() ? "" : fmt::format("\n## {}: {}\n", path.substr(0, path.size() - 1), title);
  page += "\n| key | default | what may be there | what it is |\n| --- | --- | --- | --- |\n";
  for (const Option& option : list.options()) {
    if (option.hidden || option.kind == OptionKind::kSection) continue;
    const std::string standing = option.required ? "(required)" : text_of(option);
    const std::string allowed = option.allowed();
    page += fmt::format("| `{}{}` | {} | {}{} | {} |\n", path, option.name,
                        standing.empty() ? "" : fmt::format("`{}`", standing), type_of(option),
                        allowed.empty() ? "" : ": " + cell(allowed), cell(option.help));
  }
  for (const Option& option : list.options()) {
    if (option.kind == OptionKind::kSection && !option.hidden)
      write_section(page, *option.section, path + option.name + ".", option.help);
  }
}

}  // namespace

std::string recipe_reference() {
  std::string page =
      "# Every option of a recipe\n\nWritten by `tritonforge run --options`; a test compares. A recipe is a file in "
      "YAML "
      "(`recipes/`), its keys are the paths below, and `--set PATH=VALUE` overrides one. `extends: other.yaml` begins "
      "from another recipe, which is beside it or one of the program's own (`extends: quickstart`). `tritonforge run "
      "RECIPE --dry-run` checks without starting anything.\n";
  RecipeConfig defaults;
  write_section(page, options_of(defaults), "", "");
  return page;
}

}  // namespace tritonforge::orchestrate
