#include "engine/prefix_groups.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace tritonforge::engine {
namespace {

using Row = std::span<const int32_t>;

// Any total order that puts equal beginnings side by side will do: that of the bytes is the fastest.
bool before(Row a, Row b) {
  const size_t both = std::min(a.size(), b.size());
  const int order = both == 0 ? 0 : std::memcmp(a.data(), b.data(), both * sizeof(int32_t));
  return order != 0 ? order < 0 : a.size() < b.size();
}

int64_t common(Row a, Row b) { return std::ranges::mismatch(a, b).in1 - a.begin(); }

}  // namespace

PrefixGroups group_prefixes(std::span<const Row> rows, int64_t most_members, int64_t least_saved) {
  const auto count = std::ssize(rows);
  PrefixGroups found;
  if (count < 2 || most_members < 2) return found;
  std::vector<int32_t> sorted(rows.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, [&](int32_t a, int32_t b) { return before(rows[a], rows[b]); });
  std::vector<int64_t> shared(rows.size(), 0);  // blocks that row i of the order shares with the one before it
  for (int64_t i = 1; i < count; ++i) shared[i] = common(rows[sorted[i - 1]], rows[sorted[i]]);

  // best[i]: what the first i rows of the order save; last[i]: how many of them form the last group (1: it is alone).
  std::vector<int64_t> best(rows.size() + 1, 0), last(rows.size() + 1, 1);
  for (int64_t i = 1; i <= count; ++i) {
    best[i] = best[i - 1];
    int64_t pages = shared[i - 1];
    for (int64_t members = 2; members <= std::min(i, most_members) && pages > 0; ++members) {
      const int64_t gain = (members - 1) * pages - members;
      if (best[i - members] + gain > best[i]) {
        best[i] = best[i - members] + gain;
        last[i] = members;
      }
      pages = std::min(pages, shared[i - members]);
    }
  }
  if (best[count] < std::max<int64_t>(least_saved, 1)) return found;

  for (int64_t i = count; i > 0; i -= last[i]) {
    if (last[i] == 1) continue;
    const auto group = std::span(sorted).subspan(static_cast<size_t>(i - last[i]), static_cast<size_t>(last[i]));
    found.members.insert(found.members.end(), group.begin(), group.end());
    found.starts.push_back(static_cast<int32_t>(found.members.size()));
    const auto* first = shared.data() + (i - last[i]);
    found.pages.push_back(*std::min_element(first + 1, first + last[i]));
    found.saved += (last[i] - 1) * found.pages.back();
  }
  return found;
}

}  // namespace tritonforge::engine
