#include "base/error.h"

#include <algorithm>
#include <numeric>

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

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kNotFound:
    case ErrorKind::kUnsupported: return 2;
    case ErrorKind::kMachine: return 3;
    default: return 1;
  }
}

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return 400;
    case ErrorKind::kNotFound: return 404;
    case ErrorKind::kCorrupt:
    case ErrorKind::kUnsupported: return 422;
    case ErrorKind::kConflict: return 409;
    case ErrorKind::kBusy: return 429;
    case ErrorKind::kUnavailable:
    case ErrorKind::kMachine: return 503;
    case ErrorKind::kTimeout: return 504;
    case ErrorKind::kInternal: return 500;
  }
  return 500;
}

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return "usage";
    case ErrorKind::kNotFound: return "not_found";
    case ErrorKind::kCorrupt: return "corrupt";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kConflict: return "conflict";
    case ErrorKind::kBusy: return "busy";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kTimeout: return "timeout";
    case ErrorKind::kMachine: return "machine";
    case ErrorKind::kInternal: return "internal";
  }
  return "internal";
}

std::string nearest_hint(std::string_view wrong, const std::vector<std::string>& known) {
  if (known.empty()) return "";
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wrong, a) < edit_distance(wrong, b);
  });
  const size_t distance = edit_distance(wrong, *nearest);
  if (distance <= std::max<size_t>(2, std::max(wrong.size(), nearest->size()) / 2)) {
    return fmt::format(" (did you mean '{}'?)", *nearest);
  }
  const size_t shown = std::min<size_t>(known.size(), 12);
  std::vector<std::string> head(known.begin(), known.begin() + shown);
  return fmt::format(" (known: {}{})", fmt::join(head, ", "), shown < known.size() ? ", ..." : "");
}

namespace detail {
void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw Error(ErrorKind::kInternal, fmt::format("{}:{}: {} [{}]", file, line, message, expression));
}
}  // namespace detail

}  // namespace tritonforge
