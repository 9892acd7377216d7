#pragma once
// A command's flags from the structs that describe their options (base/options.h): spelled with dashes, with the
// default and what is allowed in the help. A bad value throws kUsage: "--max-running must be at least 1, not 0".
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "base/options.h"

namespace tritonforge::cli {

void add_flag(CLI::App& command, const Option& option);
// One for each option but those named in `without`, which the command offers in a way of its own.
void add_flags(CLI::App& command, const OptionList& list, const std::vector<std::string>& without = {});

// `options` must outlive the parsing.
template <Described T>
void add_flags(CLI::App& command, T& options, const std::vector<std::string>& without = {}) {
  add_flags(command, options_of(options), without);
}

}  // namespace tritonforge::cli
