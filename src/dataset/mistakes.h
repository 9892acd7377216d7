#pragma once
// Mistakes that models make in Triton code, made in a right solution by its text alone, so that any solution can be
// spoiled. Whether one has an effect only a verdict can say.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace tritonforge::dataset {

struct Mistake {
  std::string kind;  // of compose.h or one of kinds_of_mistakes()
  std::string source;
};

std::vector<std::string_view> kinds_of_mistakes();

// One mistake more than `solution` has; nullopt where it gives no occasion for any.
std::optional<Mistake> spoil(const std::string& solution, Rng& rng);

}  // namespace tritonforge::dataset
