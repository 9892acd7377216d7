#pragma once
// Commands that do a part of their work in Python: `python -c SCRIPT REQUEST`, whose last line of stdout is a JSON
// object.
#include <string>
#include <string_view>

#include "base/filesystem.h"
#include "base/json.h"

namespace tritonforge::cli {

// python: empty for the one that the program uses (TRITONFORGE_PYTHON, else the build's). Throws what the script says
// with "kind" (usage, not_found, machine, unavailable, else corrupt) and "error"; kUnavailable where it says nothing.
Json call_python(std::string_view script, const fs::path& python, const Json& request, const std::string& what);

}  // namespace tritonforge::cli
