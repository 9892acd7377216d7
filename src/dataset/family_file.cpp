#include "dataset/family_file.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"

namespace tritonforge::dataset {
namespace {

const TemplateForm& form() {
  static const TemplateForm made{.texts = {{"problem"}, {"solution"}}, .keys = {"order"}, .required_keys = {"order"}};
  return made;
}

int place_of(const TemplateFamily::Said& order) {
  int value = -1;
  const char* end = order.value.data() + order.value.size();
  const auto [at, error] = std::from_chars(order.value.data(), end, value);
  if (error != std::errc() || at != end || value < 0 || value > 1'000'000)
    fail(ErrorKind::kCorrupt, "{}: '{}' is not a number in 0..1000000", order.where, order.value);
  if (value == 0) fail(ErrorKind::kCorrupt, "{}: places are counted from 1", order.where);
  return value;
}

}  // namespace

FamilyFile parse_family_file(std::string_view name, std::string_view text) {
  FamilyFile file;
  for (auto& family : parse_template_file(form(), name, text)) {
    file.order = place_of(family.said.at("order"));
    file.families.push_back({.name = std::move(family.name),
                             .choices = std::move(family.choices),
                             .problem = std::move(family.texts["problem"]),
                             .solution = std::move(family.texts["solution"]),
                             .min_epilogue = family.min_epilogue,
                             .max_epilogue = family.max_epilogue});
  }
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
