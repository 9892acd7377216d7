#pragma once
// tritonforge data capture
#include <CLI/CLI.hpp>

namespace tritonforge::cli {

void add_data_capture_command(CLI::App& data);

}  // namespace tritonforge::cli
