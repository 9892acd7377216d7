#include "dataset/part_file.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/named_enum.h"

namespace tritonforge::dataset {

constexpr std::array<std::string_view, 6> names_of(Form) {
  return {"rows", "images", "sequences", "signals", "volumes", "end"};
}

namespace {

const TemplateForm& form() {
  static const TemplateForm made{
      .texts = {{"inputs", false, false}, {"init", false, false}, {"forward"}, {"kernel"}, {"call", true, false}},
      .keys = {"takes", "gives", "bounds", "place"},
      .required_keys = {"takes"},
      .given = {"NAME", "KERNEL", "IN"}};
  return made;
}

Form form_of(std::string_view word, const std::string& where) {
  const auto names = names_of(Form());
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end())
    fail(ErrorKind::kCorrupt, "{}: unknown form '{}'{}", where, word,
         nearest_hint(std::string(word), {names.begin(), names.end()}));
  return static_cast<Form>(found - names.begin());
}

double number_of(const std::string& text, const std::string& where) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(std::abs(value) < 1e6))
    fail(ErrorKind::kCorrupt, "{}: '{}' is not a number", where, text);
  return value;
}

Range bounds_of(const TemplateFamily::Said& said) {
  const size_t dots = said.value.find("..");
  if (dots == std::string::npos) fail(ErrorKind::kCorrupt, "{}: '{}' is not LOW..HIGH", said.where, said.value);
  const Range range{number_of(said.value.substr(0, dots), said.where),
                    number_of(said.value.substr(dots + 2), said.where)};
  if (range.low >= range.high) fail(ErrorKind::kCorrupt, "{}: '{}' is not LOW..HIGH", said.where, said.value);
  return range;
}

}  // namespace

std::vector<Part> parse_part_file(std::string_view name, std::string_view text) {
  std::vector<Part> parts;
  for (auto& family : parse_template_file(form(), name, text)) {
    Part part{.name = family.name,
              .choices = std::move(family.choices),
              .inputs = std::move(family.texts["inputs"]),
              .init = std::move(family.texts["init"]),
              .forward = std::move(family.texts["forward"]),
              .kernel = std::move(family.texts["kernel"]),
              .call = std::move(family.texts["call"]),
              .takes = {},
              .gives = {},
              .first = false,
              .min_epilogue = family.min_epilogue,
              .max_epilogue = family.max_epilogue};
    const auto& takes = family.said.at("takes");
    for (size_t at = 0; at <= takes.value.size();) {
      const size_t end = std::min(takes.value.find(' ', at), takes.value.size());
      part.takes.push_back(form_of(takes.value.substr(at, end - at), takes.where));
      if (part.takes.back() == Form::kEnd) fail(ErrorKind::kCorrupt, "{}: nothing comes behind 'end'", takes.where);
      at = end + 1;
    }
    if (const auto found = family.said.find("gives"); found != family.said.end())
      part.gives = form_of(found->second.value, found->second.where);
    if (const auto found = family.said.find("bounds"); found != family.said.end())
      part.bounds = bounds_of(found->second);
    if (const auto found = family.said.find("place"); found != family.said.end()) {
      if (found->second.value != "first")
        fail(ErrorKind::kCorrupt, "{}: a place is 'first', not '{}'", found->second.where, found->second.value);
      part.first = true;
    }
    part.first |= !part.inputs.empty();
    parts.push_back(std::move(part));
  }
  return parts;
}

const std::vector<Part>& all_parts() {
  static const std::vector<Part> parts = [] {
    std::vector<Part> all;
    for (const auto& [name, text] : part_files) {
      for (auto& part : parse_part_file(name, text)) all.push_back(std::move(part));
    }
    std::sort(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.name < b.name; });
    return all;
  }();
  return parts;
}

const Part* find_part(std::string_view name) {
  for (const auto& part : all_parts()) {
    if (part.name == name) return &part;
  }
  return nullptr;
}

}  // namespace tritonforge::dataset
