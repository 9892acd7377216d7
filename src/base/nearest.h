#pragma once
// What somebody who mistyped a name may have meant. nearest_hint, which every refusal of a name ends with, is in
// error.h.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge {

// The nearest of `known` by edit distance, where one is near.
std::optional<std::string> nearest_name(std::string_view wrong, const std::vector<std::string>& known);

// " (did you mean 'x'?)" where the first part of `missing` that is not there is nearly called so; "" where nothing is.
std::string nearest_path_hint(const fs::path& missing);

}  // namespace tritonforge
