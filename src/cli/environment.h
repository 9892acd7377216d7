#pragma once
// The variables TRITONFORGE_* of the environment: what each is for, and a word where one is set that nothing reads.
#include <string_view>
#include <vector>

namespace tritonforge::cli {

struct EnvironmentVariable {
  std::string_view name, help;
};
const std::vector<EnvironmentVariable>& environment_variables();  // those that a user may set, by name

// A warning for each that is set and that nothing reads, with the nearest that something does: a typo in one would
// change nothing without a word. It is taken out of the environment, so that no process that this one starts says so
// again.
void warn_of_unknown_variables();

}  // namespace tritonforge::cli
