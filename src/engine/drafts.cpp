#include "engine/drafts.h"

namespace tritonforge::engine {

void look_up_drafts(std::span<const int64_t> tokens, int64_t count, std::vector<int64_t>& drafts) {
  drafts.clear();
  const auto end = static_cast<int64_t>(tokens.size());
  if (end <= kShortestMatch || count <= 0) return;

  // The longest match that ends before `end`: of equal ones the last.
  int64_t next = 0, longest = kShortestMatch - 1;
  for (int64_t at = end - 1; at >= kShortestMatch && longest < kLongestMatch; --at) {
    if (tokens[at - 1] != tokens[end - 1]) continue;
    int64_t length = 1;
    while (length < at && length < kLongestMatch && tokens[at - 1 - length] == tokens[end - 1 - length]) ++length;
    if (length > longest) {
      longest = length;
      next = at;
    }
  }
  if (next == 0) return;
  for (int64_t i = 0; i < count; ++i) drafts.push_back(next + i < end ? tokens[next + i] : drafts[next + i - end]);
}

}  // namespace tritonforge::engine
