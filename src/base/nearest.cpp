#include "base/nearest.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace tritonforge {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view wrong, const std::vector<std::string>& known) {
  if (known.empty()) return std::nullopt;
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wrong, a) < edit_distance(wrong, b);
  });
  const size_t distance = edit_distance(wrong, *nearest);
  if (distance > std::max<size_t>(2, std::max(wrong.size(), nearest->size()) / 2)) return std::nullopt;
  return *nearest;
}

std::string nearest_hint(std::string_view wrong, const std::vector<std::string>& known) {
  if (known.empty()) return "";
  if (const auto nearest = nearest_name(wrong, known)) return fmt::format(" (did you mean '{}'?)", *nearest);
  const size_t shown = std::min<size_t>(known.size(), 12);
  std::vector<std::string> head(known.begin(), known.begin() + shown);
  return fmt::format(" (known: {}{})", fmt::join(head, ", "), shown < known.size() ? ", ..." : "");
}

std::string nearest_path_hint(const fs::path& missing) {
  fs::path folder = missing.has_root_path() ? missing.root_path() : ".";
  for (const fs::path& part : missing.relative_path()) {
    std::error_code never_there;  // a name that is too long
    if (fs::exists(folder / part, never_there)) {
      folder /= part;
      continue;
    }
    const auto near = nearest_name(part.string(), names_in(folder, [](const fs::path&) { return true; }));
    return near ? fmt::format(" (did you mean '{}'?)", *near) : "";
  }
  return "";
}

}  // namespace tritonforge
