#pragma once
// tritonforge data build | show
#include <CLI/CLI.hpp>

#include <string>

#include "base/filesystem.h"

namespace tritonforge::cli {

void add_data_build_command(CLI::App& data);
void add_data_show_command(CLI::App& data);
// The card of a built data set, as text or JSON: what `data stats` shows of a folder. `page`: a
// file for the same as a page, with the first rows of its JSON lines.
void print_card(const std::string& folder, bool json, const std::string& page = "");
std::string data_build_page(const fs::path& folder);  // that page; throws kNotFound

}  // namespace tritonforge::cli
