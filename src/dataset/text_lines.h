#pragma once
// Plain text to train on: one {"text": "..."} a line.
#include <string>
#include <vector>

#include "base/filesystem.h"

namespace tritonforge::dataset {

// Throws kNotFound / kUsage naming file and line.
std::vector<std::string> read_text_lines(const fs::path& file);

}  // namespace tritonforge::dataset
