#pragma once
// Python that a command runs with `python -c`, part of the binary (src/cli/python/).
#include <string_view>

namespace tritonforge::cli {

extern const std::string_view python_megatron_py;
extern const std::string_view python_pull_py;

}  // namespace tritonforge::cli
