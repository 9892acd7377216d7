#pragma once
// Names of what is written again and again: checkpoints, published weights. Beside them others keep what is theirs.
#include <string_view>

namespace tritonforge::train {

// Whether it is `before`, digits, `after`, and no more than that.
inline bool is_numbered(std::string_view name, std::string_view before, std::string_view after = {}) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size()) return false;
  const std::string_view digits = name.substr(before.size(), name.size() - before.size() - after.size());
  return digits.find_first_not_of("0123456789") == digits.npos;
}

}  // namespace tritonforge::train
